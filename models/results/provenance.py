"""What made a result."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from forecache.sim.plain import Result


@dataclass(frozen=True)
class Provenance(Result):
    """Versions, platform, seed and time."""

    forecache_version: str
    python: str
    numpy: str
    machine: str
    seed: int
    date: str


def provenance(*, seed: int) -> Provenance:
    """Of a result that is made here and now."""
    from forecache import __version__

    return Provenance(
        forecache_version=__version__,
        python=platform.python_version(),
        numpy=np.__version__,
        machine=platform.machine(),
        seed=seed,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
