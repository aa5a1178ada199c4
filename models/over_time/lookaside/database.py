"""The database that misses go to: a queue they may overload.

Queries are served first in, first out, at most `capacity_qps` a second; besides waiting each takes
`latency_ms`. A client that has waited for `timeout_s` gives up: it stores nothing, and the query is
still run unless `abandoned` says that it is cancelled. So while answers come later than clients
wait, the database is busy with answers whose clients have given up, and the cache stays empty.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from forecache.hwprofiles.record import Record

from .hashing import Hashing

Floats = NDArray[np.float64]


class DatabaseSettings(Record):
    """What misses go to."""

    capacity_qps: float = Field(gt=0, le=1e9)
    """Queries a second that it can answer."""
    latency_ms: float = Field(default=5.0, ge=0, le=1000)
    """What a query takes that need not wait."""
    timeout_s: float = Field(default=2.0, gt=0, le=3600)
    """Time after which a client gives up a query and stores nothing."""
    abandoned: Literal["run", "cancelled"] = "run"
    """What becomes of a query that was given up."""
    most_waiting: float | None = Field(default=None, ge=0, le=1e9)
    """Queries that may wait; more are refused at once. As many as come without it."""


@dataclass
class Cohort:
    """Queries of one step.

    Attributes
    ----------
    at_s
        When they came.
    queries, followers
        Queries that are left, and requests that wait for them without asking themselves.
    fills : (slots, classes)
        Keys that are stored when all of them are answered.
    share
        Part of followers and fills that is left.
    gone
        Whether their clients have given up.
    """

    at_s: float
    queries: float
    followers: float
    fills: Floats
    share: float = 1.0
    gone: bool = False


@dataclass(frozen=True)
class DatabaseAnswers:
    """What a database did in one step.

    Attributes
    ----------
    answered
        Requests that were answered, followers included.
    wait_s
        The sum of what they had waited.
    fills, lost : (slots, classes)
        Keys to be stored, and keys whose clients gave up.
    timed_out, wasted
        Requests given up, and queries run after their client had given up.
    busy
        Share of the capacity that was used.
    """

    answered: float
    wait_s: float
    fills: Floats
    lost: Floats
    timed_out: float
    wasted: float
    busy: float


class Database:
    """A queue of queries, in cohorts."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self.settings = settings
        self.cohorts: deque[Cohort] = deque()

    @property
    def queued(self) -> float:
        """Queries that wait, those that were given up included."""
        return sum(cohort.queries for cohort in self.cohorts)

    @property
    def waiting(self) -> float:
        """Requests whose clients wait."""
        return sum(c.queries + c.share * c.followers for c in self.cohorts if not c.gone)

    def room(self, step_s: float) -> float:
        """Queries that could be answered in a step besides those that wait already."""
        return max(0.0, self.settings.capacity_qps * step_s - self.queued)

    def share_refused(self, queries: float, step_s: float) -> float:
        """Share of the new queries that exceed what the queue takes."""
        if self.settings.most_waiting is None or queries <= 0:
            return 0.0
        taken = self.settings.most_waiting + self.settings.capacity_qps * step_s - self.queued
        return min(1.0, max(0.0, 1.0 - taken / queries))

    def join(self, cohort: Cohort) -> None:
        """Queries come."""
        if cohort.queries > 0 or cohort.followers > 0:
            self.cohorts.append(cohort)

    def serve(self, now_s: float, step_s: float, shape: tuple[int, ...]) -> DatabaseAnswers:
        """Work for one step that ends at `now_s`."""
        fills, lost = np.zeros((2, *shape))
        timed_out = self._give_up(now_s, step_s, lost)
        capacity = left = self.settings.capacity_qps * step_s
        answered = wait_s = wasted = 0.0
        while self.cohorts:
            cohort = self.cohorts[0]
            if left <= 0 and cohort.queries > 0:
                break
            part = min(1.0, left / cohort.queries) if cohort.queries > 0 else 1.0
            served = part * cohort.queries
            left -= served
            if cohort.gone:
                wasted += served
            else:
                done = served + part * cohort.share * cohort.followers
                answered += done
                # Those of this step came half a step ago on average, and need not have waited.
                wait_s += done * max(0.0, now_s - cohort.at_s - step_s)
                fills += part * cohort.share * cohort.fills
            cohort.queries -= served
            cohort.share *= 1.0 - part
            if part < 1.0:
                break
            self.cohorts.popleft()
        return DatabaseAnswers(
            answered, wait_s, fills, lost, timed_out, wasted, busy=(capacity - left) / capacity
        )

    def _give_up(self, now_s: float, step_s: float, lost: Floats) -> float:
        """Clients leave who have waited too long; returns how many requests that were."""
        timed_out = 0.0
        for cohort in self.cohorts:
            if cohort.gone or now_s - step_s - cohort.at_s < self.settings.timeout_s:
                continue
            timed_out += cohort.queries + cohort.share * cohort.followers
            lost += cohort.share * cohort.fills
            cohort.gone, cohort.followers = True, 0.0
            if self.settings.abandoned == "cancelled":
                cohort.queries = 0.0
        return timed_out


# --- what a scenario says of a cache beside a database --------------------------------------------


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
