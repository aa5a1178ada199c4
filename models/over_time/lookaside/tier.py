"""A cache and the database behind it, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .contents import Contents
from .database import Cohort, Database

Floats = NDArray[np.float64]

_NOTHING = 1e-10


@dataclass(frozen=True)
class TierStep:
    """What became of the requests of one step.

    Attributes
    ----------
    hits, misses
        (nodes,) requests that found their key, and that did not.
    queries
        Queries that the database was asked, those of clients whose node is down included.
    answered, timed_out, refused
        Requests that the database answered, that gave up waiting for it, and that it refused.
    wait_s
        Mean wait of what it answered, its latency not counted.
    stored : (nodes,)
        Keys stored.
    busy
        Share of the database's capacity in use.
    """

    hits: Floats
    misses: Floats
    queries: float
    answered: float
    timed_out: float
    refused: float
    wait_s: float
    stored: Floats
    busy: float

    @property
    def hit_share(self) -> float:
        """Share of the requests to the cache that found their key; NaN without any."""
        asked = float(self.hits.sum() + self.misses.sum())
        return float(self.hits.sum()) / asked if asked > 0 else float("nan")


class Tier:
    """A cache beside a database.

    Attributes
    ----------
    pending : (slots, classes)
        Keys that are being fetched by a client that still waits.
    totals
        Requests since the beginning: to the cache, straight to the database, hits, answered by the
        database, timed out, refused.
    """

    def __init__(self, contents: Contents, database: Database, *, coalescing: bool) -> None:
        """Put them together.

        Parameters
        ----------
        coalescing
            Whether clients that miss a key which is being fetched wait for that instead of asking
            the database as well.
        """
        self.contents, self.database, self.coalescing = contents, database, coalescing
        self.pending = np.zeros_like(contents.keys)
        self.now_s = 0.0
        self.totals = dict.fromkeys(
            ("to_cache", "straight", "hits", "answered", "timed_out", "refused"), 0.0
        )

    def step(
        self,
        by_node: Floats,
        weights: Floats,
        step_s: float,
        *,
        straight: float = 0.0,
        up: NDArray[np.bool_] | None = None,
    ) -> TierStep:
        """Count the requests (nodes,) that reached each node in a step.

        Parameters
        ----------
        weights
            (slots,) share of the requests for a slot's keys that are sent to it.
        straight
            Requests that go straight to the database, whose keys can't be stored.
        up
            (nodes,) whether a node stores anything; all do without.
        """
        contents, settings = self.contents, self.database.settings
        start_s = self.now_s
        self.now_s += step_s
        usual = contents.traffic(weights)
        scale = np.divide(by_node, usual, out=np.zeros_like(usual), where=usual > 0)
        per_key = contents.asked * (weights * scale[contents.node])[:, None]
        requests = contents.keys * per_key
        absent = contents.keys - contents.present - self.pending
        # What rounding leaves of a cell that is full is nothing.
        absent[absent < _NOTHING * contents.keys] = 0.0
        # A key's first request of the step finds it absent, the others find it if it was quick.
        first = absent * -np.expm1(-per_key)
        later = np.maximum(0.0, absent * per_key - first)
        during_fetch = np.minimum(later, first * per_key * (settings.latency_ms / 1e3 / step_s))
        pending = self.pending * per_key
        asked_anyway = straight + (0.0 if self.coalescing else float(pending.sum()))
        asks = first if self.coalescing else first + during_fetch
        need = float(asks.sum())
        room = self.database.room(step_s) - asked_anyway
        quick = min(1.0, max(0.0, room / need)) if need > 0 else 1.0
        repeated = quick * during_fetch + (1.0 - quick) * later + pending
        misses = np.minimum(requests, first + repeated)
        hits = requests - misses
        if self.coalescing:
            queries, followers = float(first.sum()) + straight, float((misses - first).sum())
        else:
            queries, followers = float(misses.sum()) + straight, 0.0
        refused = self.database.share_refused(queries, step_s)
        kept = 1.0 - refused
        self.pending += kept * first
        self.database.join(Cohort(start_s, kept * queries, kept * followers, kept * first))
        served = self.database.serve(self.now_s, step_s, first.shape)
        self.pending = np.maximum(0.0, self.pending - served.fills - served.lost)
        stored = served.fills
        if up is not None:
            stored = stored * up[contents.node][:, None]
        contents.pass_time(step_s)
        contents.touch(per_key)
        # What was fetched twice, because clients gave up the first time, is there already.
        stored = np.minimum(stored, np.maximum(0.0, contents.keys - contents.present))
        contents.store(stored)
        total_refused = refused * (queries + followers)
        self._add(
            to_cache=float(requests.sum()),
            straight=straight,
            hits=float(hits.sum()),
            answered=served.answered,
            timed_out=served.timed_out,
            refused=total_refused,
        )
        return TierStep(
            hits=contents.by_node(hits.sum(axis=1)),
            misses=contents.by_node(misses.sum(axis=1)),
            queries=queries,
            answered=served.answered,
            timed_out=served.timed_out,
            refused=total_refused,
            wait_s=served.wait_s / served.answered if served.answered > 0 else 0.0,
            stored=contents.by_node(stored.sum(axis=1)),
            busy=served.busy,
        )

    def check(self) -> None:
        """Compare what was asked with what became of it.

        Raises
        ------
        RuntimeError
            A request was lost or made up, which is a fault of the program.
        """
        totals = self.totals
        asked = totals["to_cache"] + totals["straight"]
        became = sum(totals[name] for name in ("hits", "answered", "timed_out", "refused"))
        if abs(asked - became - self.database.waiting) > 1e-6 * max(1.0, asked):
            raise RuntimeError("the cache's tier lost or invented requests")
        held = self.contents.keys_held()
        if (held > self.contents.capacity * (1 + 1e-9) + 1e-6).any() or (held < 0).any():
            raise RuntimeError("a node holds more keys than it has memory for")

    def _add(self, **counts: float) -> None:
        for name, count in counts.items():
            self.totals[name] += count
