"""What caches hold, and the database that is asked for the rest.

**A cache beside a database** (Memcached's usual place). Clients look a key up in the cache and, if
it isn't there, fetch it from the database and store it. They alone decide which node a key belongs
to, from a list of nodes that an operator edits. So when the list changes, clients look for keys
where they have never been; when a node restarts, it is empty. In both cases clients ask the
database for what is missing.

    request ─▶ node of its key ─▶ hit
                              └─▶ miss ─▶ database ─▶ answer, and the key is stored in the cache
                              └─▶ no answer (the node is down)

`Groups` says which node of each list a key belongs to, `Contents` which keys nodes hold and what
they evict, `Database` is a queue that misses overload, `Tier` has both, step by step, and the law
that no request is lost. Counts are expected values, no integers: popularity classes and groups of
keys with the same owners are large. `cluster/` brings the nodes' own capacity, clients and
time-outs to it.

**A cache that its own writes fill** is a `Filling`.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from forecache.hwprofiles.record import Record

from ..memory.caches import characteristic_requests
from ..scenario.workload import HotSetPopularity, Popularity, Zipf

Floats = NDArray[np.float64]

Hashing = Literal["modulo", "ketama"]


# --- what a scenario says of a cache beside a database --------------------------------------------


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


# --- which node of a list a key belongs to --------------------------------------------------------

# `modulo` takes the hash of a key modulo the length of the list. From n nodes to m it leaves min(n,
# m) of every lcm(n, m) hash values where they are, whatever the hash function.
#
# `ketama` is consistent hashing as in libketama and libmemcached: every node is a number of points
# on a circle of 32-bit numbers, 40 MD5 digests of `name-0`, `name-1`, ... with four points each for
# a node of mean weight, and a key belongs to the next point (R. Jones, *libketama*, 2007;
# libmemcached `hosts.cc`). A new node takes arcs from all others and moves nothing else.


DIGESTS_PER_NODE = 40
POINTS_PER_DIGEST = 4
CIRCLE = 2**32

MOST_RESIDUES = 1_000_000
"""Residues that are looked at one by one; of more, as many evenly spaced ones are."""


@dataclass(frozen=True)
class Ring:
    """Points of a circle in ascending order, and to which entry of the list each belongs."""

    points: NDArray[np.int64]
    entries: NDArray[np.int64]

    def owners(self, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Entry of the list that each hash belongs to: that of the next point."""
        at = np.searchsorted(self.points, hashes, side="left")
        return np.asarray(self.entries[at % len(self.points)])


def ketama_ring(names: Sequence[str]) -> Ring:
    """The points of a list of nodes, all of the same weight.

    Parameters
    ----------
    names
        As clients spell them, such as `10.0.0.1:11211`; points depend on nothing else.
    """
    points: list[int] = []
    entries: list[int] = []
    for entry, name in enumerate(names):
        for number in range(DIGESTS_PER_NODE):
            digest = hashlib.md5(f"{name}-{number}".encode(), usedforsecurity=False).digest()
            points += np.frombuffer(digest, "<u4").tolist()
            entries += [entry] * POINTS_PER_DIGEST
    order = np.argsort(np.array(points, np.int64), kind="stable")
    return Ring(np.array(points, np.int64)[order], np.array(entries, np.int64)[order])


def ketama_hash(key: bytes) -> int:
    """Where a key stands on the circle: the first four bytes of its MD5 digest."""
    return int.from_bytes(hashlib.md5(key, usedforsecurity=False).digest()[:4], "little")


@dataclass(frozen=True)
class Groups:
    """Keys that always belong to the same node as each other, one list after the other.

    Attributes
    ----------
    shares : (groups,)
        Share of all keys; they add up to one.
    owners : (lists, groups)
        Node that each group belongs to under each list.
    """

    shares: NDArray[np.float64]
    owners: NDArray[np.int64]


def groups_of(
    lists: Sequence[Sequence[int]], *, hashing: Hashing, names: Sequence[str] = ()
) -> Groups:
    """Group keys by the nodes they belong to under several lists.

    Parameters
    ----------
    lists
        Numbers of nodes in the order in which clients list them, one list after the other.
    names
        What clients call each number; needed for `ketama`.
    """
    if hashing == "modulo":
        shares, owners = _by_residue(lists)
    else:
        shares, owners = _by_arc(lists, names)
    unique, group = np.unique(owners, axis=1, return_inverse=True)
    together = np.bincount(group.reshape(-1), weights=shares, minlength=unique.shape[1])
    return Groups(together / together.sum(), unique)


def _by_residue(
    lists: Sequence[Sequence[int]],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    residues = math.lcm(*(len(found) for found in lists))
    if residues <= MOST_RESIDUES:
        hashes = np.arange(residues)
    else:
        hashes = np.linspace(0, residues - 1, MOST_RESIDUES).astype(np.int64)
    owners = [np.array(found, np.int64)[hashes % len(found)] for found in lists]
    return np.full(len(hashes), 1.0 / len(hashes)), np.stack(owners)


def _by_arc(
    lists: Sequence[Sequence[int]], names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rings = [ketama_ring([names[node] for node in found]) for found in lists]
    ends = np.unique(np.concatenate([ring.points for ring in rings]))
    # The arc before the first point begins behind the last one.
    lengths = np.diff(ends, prepend=ends[-1] - CIRCLE)
    owners = [
        np.array(found, np.int64)[ring.owners(ends)]
        for found, ring in zip(lists, rings, strict=True)
    ]
    return lengths / CIRCLE, np.stack(owners)


def share_moved(groups: Groups, before: int, after: int) -> float:
    """Share of the keys that two of the lists give to different nodes."""
    moved = groups.owners[before] != groups.owners[after]
    return float(groups.shares[moved].sum())


# --- which keys the nodes hold --------------------------------------------------------------------

# Keys are counted in cells: those of one popularity class that belong to one group
# (`hashing.Groups`) and lie on one node. Of a cell a number of keys is present, and these lie in
# bins by the time since they were last touched: that is the node's list of the least recently used,
# and what does not fit is taken from its end. In a steady state a key is there if it was asked for
# within the node's characteristic time *T* (Che's approximation, `models/memory/waits.py`), where a
# run begins.


AGES_TO_EVICTION = 32
"""Bins from the newest key to the one that is evicted next, in a steady state."""

MOST_AGES = 96

_NEVER_S = 1e18
_SHORTEST_S = 1e-9


class Contents:
    """What the nodes hold, as expected numbers of keys.

    Attributes
    ----------
    node, share
        (slots,) node of a slot, and the share of all keys that its group has. A slot is a group on
        a node that owns it under some list.
    slot_of
        (lists, groups) slot that a list sends each group to.
    keys, asked
        (slots, classes) keys of each cell, and the share of requests that is for one of them.
    held
        (slots, classes, ages) keys that are present, the most recently touched ones first.
    """

    def __init__(
        self,
        classes: Sequence[tuple[float, float]],
        groups: Groups,
        *,
        capacity_keys: Sequence[float],
        requests_per_s: float,
        duration_s: float,
        warm: bool = True,
    ) -> None:
        """Begin in the steady state of the first list, or empty.

        Parameters
        ----------
        classes
            (keys, share of requests) of each popularity class.
        capacity_keys
            Keys that each node has memory for.
        requests_per_s
            Of all nodes, when it begins; says how long a key stays.
        duration_s
            How long it is going to be watched.
        """
        self.capacity = np.array(capacity_keys, float)
        lists, count = groups.owners.shape
        pairs = [(group, int(node)) for row in groups.owners for group, node in enumerate(row)]
        slots = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        self.slot_of = np.array([slots[pair] for pair in pairs]).reshape(lists, count)
        self.node = np.array([node for _, node in slots])
        self.share = groups.shares[[group for group, _ in slots]]
        class_keys, class_shares = np.array(classes, float).T
        self.keys = self.share[:, None] * class_keys
        self.asked = np.broadcast_to(class_shares / class_keys, self.keys.shape)
        first = self.weights([1.0] + [0.0] * (lists - 1))
        self._times_s = self._characteristic_s(requests_per_s)
        finite = self._times_s[np.isfinite(self._times_s) & (self._times_s > 0)]
        if (self.by_node(self.keys.sum(axis=1)) <= self.capacity).all():
            # Nothing is ever evicted, so the age of a key does not matter.
            self.bin_s, ages = _NEVER_S, 2
        elif finite.size:
            self.bin_s = max(_SHORTEST_S, float(finite.min()) / AGES_TO_EVICTION)
            ages = min(MOST_AGES, math.ceil(1.5 * float(finite.max()) / self.bin_s) + 2)
        else:
            self.bin_s, ages = duration_s / AGES_TO_EVICTION, AGES_TO_EVICTION + 2
        self._bin_age_s = 0.0
        self.held = np.zeros((*self.keys.shape, ages))
        self.evicted = np.zeros(len(self.capacity))
        if warm:
            self._warm(first, requests_per_s)

    def weights(self, mix: Sequence[float]) -> Floats:
        """(slots,) share of the requests for a slot's keys that are sent to it.

        Parameters
        ----------
        mix
            Share of the clients that use each list.
        """
        weights = np.zeros(len(self.node))
        for slots, part in zip(self.slot_of, mix, strict=True):
            weights[slots] += part
        return weights

    def traffic(self, weights: Floats) -> Floats:
        """(nodes,) share of the requests that each node gets."""
        sent = weights * (self.keys * self.asked).sum(axis=1)
        return self.by_node(sent)

    @property
    def present(self) -> Floats:
        """(slots, classes) keys that are present."""
        return np.asarray(self.held.sum(axis=2))

    def keys_held(self) -> Floats:
        """(nodes,) keys on each node, including those that clients no longer ask it for."""
        return self.by_node(self.present.sum(axis=1))

    def touch(self, requests_per_key: Floats) -> None:
        """Note that present keys were asked for so often (slots, classes) on average each."""
        touched = -np.expm1(-requests_per_key)[:, :, None] * self.held[:, :, 1:]
        self.held[:, :, 1:] -= touched
        self.held[:, :, 0] += touched.sum(axis=2)

    def store(self, keys: Floats) -> None:
        """Store (slots, classes) counts of absent keys, and evict what doesn't fit."""
        self.held[:, :, 0] += keys
        excess = self.keys_held() - self.capacity
        if (excess <= 0).any() and not (excess > 0).any():
            return
        by_age = np.zeros((len(self.capacity), self.held.shape[2]))
        np.add.at(by_age, self.node, self.held.sum(axis=1))
        older = by_age[:, ::-1].cumsum(axis=1)[:, ::-1] - by_age
        gone = np.clip(excess[:, None] - older, 0.0, by_age)
        kept = 1.0 - np.divide(gone, by_age, out=np.zeros_like(gone), where=by_age > 0)
        self.held *= kept[self.node][:, None, :]
        self.evicted += gone.sum(axis=1)

    def clear(self, node: int) -> None:
        """A node forgets everything."""
        self.held[self.node == node] = 0.0

    def pass_time(self, seconds: float) -> None:
        """Everything that isn't touched gets older."""
        self._bin_age_s += seconds
        passed = math.floor(self._bin_age_s / self.bin_s)
        if passed == 0:
            return
        self._bin_age_s = max(0.0, self._bin_age_s - passed * self.bin_s)
        last = self.held.shape[2] - 1
        passed = min(passed, last)
        aged = np.zeros_like(self.held)
        aged[:, :, passed:last] = self.held[:, :, : last - passed]
        aged[:, :, last] = self.held[:, :, last - passed :].sum(axis=2)
        self.held = aged

    def by_node(self, of_slots: Floats) -> Floats:
        """(nodes,) sums over the slots of each node."""
        counts = np.bincount(self.node, weights=of_slots, minlength=len(self.capacity))
        return np.asarray(counts, np.float64)

    def _characteristic_s(self, requests_per_s: float) -> Floats:
        """(lists, nodes) how long a node holds an unused key, under each list; 0: no keys.

        Infinite where everything that is ever asked of it fits.
        """
        found = np.zeros((len(self.slot_of), len(self.capacity)))
        for row, slots in zip(found, self.slot_of, strict=True):
            for node in np.unique(self.node[slots]):
                own = slots[self.node[slots] == node]
                keys, rates = self.keys[own].sum(axis=0), (self.keys * self.asked)[own].sum(axis=0)
                requests = characteristic_requests(keys, rates, float(self.capacity[node]))
                row[node] = requests / requests_per_s if requests_per_s > 0 else math.inf
        return found

    def _warm(self, weights: Floats, requests_per_s: float) -> None:
        """Fill as after a long time under the first list."""
        rates = requests_per_s * self.asked * weights[:, None]
        longest_s = self._times_s[0][self.node][:, None]
        # (slots, ages + 1): when the keys of a bin were touched last, at most that long ago.
        edges_s = np.minimum(
            np.append(np.arange(self.held.shape[2]) * self.bin_s, np.inf), longest_s
        )
        finite_s = np.where(np.isfinite(edges_s), edges_s, 0.0)
        untouched = np.exp(-rates[:, :, None] * finite_s[:, None, :])
        # Of what fits everything was asked for once, however long ago.
        untouched *= np.isfinite(edges_s)[:, None, :]
        self.held = -np.diff(untouched, axis=2) * self.keys[:, :, None]
        self.held[weights == 0] = 0.0


# --- the database ---------------------------------------------------------------------------------

# Queries are served first in, first out, at most `capacity_qps` a second; besides waiting each
# takes `latency_ms`. A client that has waited for `timeout_s` gives up: it stores nothing, and the
# query is still run unless `abandoned` says that it is cancelled. So while answers come later than
# clients wait, the database is busy with answers whose clients have given up, and the cache stays
# empty.


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


# --- both, step by step ---------------------------------------------------------------------------


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


# --- a cache that its own writes fill -------------------------------------------------------------

# A cache that evicts the least recently used keys holds about those that the last n commands named;
# n is the characteristic time of Che and others (IEEE JSAC 20(7), 2002). A key that a command names
# with probability p is there with probability 1 - exp(-p n). A cache that fills for the first time
# holds the same, with n the writes so far.


_BINS = 400
"""Groups of keys that are taken for equally popular."""


class Filling:
    """The content of a cache over its life.

    Attributes
    ----------
    named
        Writes that say what is there: so far, or since what was evicted.
    """

    def __init__(self, *, keys: int, popularity: Popularity, filled: float) -> None:
        self.keys = keys
        self._count, self._share = _groups(keys, popularity)
        self.evicted = 0.0
        self.named = 0.0
        if filled > 0:
            self.named = self._named_for(filled * keys)

    @property
    def held(self) -> float:
        """Keys that are there."""
        return self._held(self.named)

    @property
    def hit_rate(self) -> float:
        """Share of the reads that find theirs."""
        there = -np.expm1(-self.named * self._share)
        return float((self._count * self._share) @ there)

    def write(self, writes: float, *, most: float, evicts: bool) -> float:
        """Apply a number of writes; returns how many of them failed for want of room.

        Parameters
        ----------
        most
            Keys that there is room for.
        evicts
            Whether others go for new ones; writes of new keys fail otherwise.
        """
        before = self.held
        after = self._held(self.named + writes)
        if after <= most:
            self.named += writes
            return 0.0
        if evicts:
            self.evicted += after - max(before, most)
            self.named = self._named_for(most)
            return 0.0
        room = max(0.0, most - before)
        fresh = after - before
        failed = (fresh - room) / fresh if fresh > 0 else 0.0
        self.named = max(self.named, self._named_for(most))
        # New keys fail; writes of those that are there don't.
        return writes * failed * (1.0 - self.hit_rate)

    def _held(self, named: float) -> float:
        return float(self._count @ -np.expm1(-named * self._share))

    def _named_for(self, held: float) -> float:
        """Number of writes after which a number of keys is present."""
        if held >= self.keys * (1.0 - 1e-9):
            held = self.keys * (1.0 - 1e-9)
        low, high = 0.0, float(self.keys)
        while self._held(high) < held:
            high *= 2.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._held(middle) < held else (low, middle)
        return high


def _groups(keys: int, popularity: Popularity) -> tuple[np.ndarray, np.ndarray]:
    """Keys in each group of equally popular ones, and the probability of one of them."""
    if isinstance(popularity, HotSetPopularity):
        hot = popularity.hot_set
        counts = keys * np.array([hot.keys, 1.0 - hot.keys])
        return counts, np.array([hot.requests, 1.0 - hot.requests]) / counts
    if not isinstance(popularity, Zipf):
        return np.array([float(keys)]), np.array([1.0 / keys])
    edges = np.unique(np.rint(np.geomspace(1, keys + 1, _BINS)))
    counts = np.diff(edges)
    exponent = popularity.zipf
    middle = np.sqrt(edges[:-1] * (edges[1:] - 1).clip(edges[:-1]))
    weights = middle**-exponent
    return counts, weights / float(counts @ weights)


def room(most_bytes: float, key_bytes: float) -> float:
    """Keys that fit."""
    return math.inf if not math.isfinite(most_bytes) else most_bytes / max(key_bytes, 1.0)
