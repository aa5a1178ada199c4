"""What a scenario says of a cache beside a database."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from forecache.hwprofiles.record import Record

from .database import DatabaseSettings
from .hashing import Hashing


class Lookaside(Record):
    """The nodes are a cache; clients ask a database for what they miss, and store it."""

    hashing: Hashing = "ketama"
    """How clients choose the node of a key: `modulo` (hash modulo the number of nodes) or `ketama`
    (consistent hashing, 160 points per node)."""
    memory_mib: float | None = Field(default=None, ge=1, le=2**20)
    """Memory of each node for items (`-m`); the least recently used are evicted. All keys fit
    without it."""
    database: DatabaseSettings
    """What misses go to."""
    coalescing: bool = False
    """Whether clients that miss a key which is being fetched wait for that, instead of asking the
    database too."""
    when_down: Literal["database", "error"] = "database"
    """What clients do whose node did not answer: ask the database, which is not stored, or fail."""
    begins: Literal["warm", "empty"] = "warm"
    """What nodes hold at first: what they would after a long time, or nothing."""
