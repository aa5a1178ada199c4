"""Which of a node's keys are there: a sample of them, request by request.

A node's keys are too many to follow each. Of keys that are equally popular a sample does, since
what happens to one depends on the others only by sums: how full the memory is, which of a few
random keys was used last, how many of twenty have expired. So `KeySample` follows one in `scale`
keys of every popularity through its requests, and the engine's own rules decide what goes, with as
much less memory (C. Waldspurger and others, "Cache modeling and optimization using miniature
simulations", USENIX ATC 2017). `native/keyspace.c` does it.

Popular keys are asked for so often that they are there whenever they can be; a key of the sample is
asked for `_ENOUGH` times in the time that an unused one stays at most, so that a day of a busy node
takes seconds. Misses are counted, hits are the other requests.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from forecache.sim.native import Layout, library, pointer
from forecache.sim.streams import generator

from ...memory.caches import characteristic_requests
from ...memory.lines import rank_classes
from ...scenario.workload import Popularity

SOURCES = Path(__file__).parent / "native"
_LAYOUT = Layout(SOURCES / "keyspace.h")
_RECORDS = _LAYOUT.dtypes
CONSTANTS = _LAYOUT.constants
_READ = CONSTANTS["READ"]

_CLASSES = 400
"""Groups of keys that are taken for equally popular."""

_FEWEST, _MOST = 20_000, 100_000
"""Keys of a sample."""

_REQUESTS = 20_000_000
"""Requests to keys of a sample in a run; longer runs have smaller samples."""

_ENOUGH = 20.0
"""Requests for a key within the time that an unused one stays."""

_STAYS = 2.0
"""Times that an unused key stays after which what was there at first no longer matters."""

_SAMPLED, _BEGUN = 70, 71
"""Purposes of draws."""


@cache
def _compiled() -> ctypes.CDLL:
    code = library(SOURCES)
    code.advance_keys.argtypes = [ctypes.c_void_p, ctypes.c_double]
    code.advance_keys.restype = None
    code.write_keys.argtypes = [ctypes.c_void_p, *[ctypes.c_int64] * 2, ctypes.c_double]
    code.write_keys.restype = None
    code.begin_keys.argtypes, code.begin_keys.restype = [ctypes.c_void_p] * 2, None
    code.is_consistent.argtypes = [ctypes.c_void_p]
    code.is_consistent.restype = ctypes.c_int64
    return code


@dataclass(frozen=True)
class KeyRequests:
    """What clients ask of keys.

    Attributes
    ----------
    rate_rps
        Requests a second, the mean of a run.
    reads, writes, deletes
        Shares of them.
    stores_misses
        Whether a client that finds nothing writes the key.
    """

    rate_rps: float
    reads: float
    writes: float
    deletes: float
    stores_misses: bool


@dataclass(frozen=True)
class KeyKinds:
    """The keys that clients may ask for.

    Attributes
    ----------
    keys
        How many.
    sizes
        (bytes of memory without a time to live, the same with one, share of the keys).
    ttl
        Share of them that get a time to live.
    ttl_s
        The shortest and the longest.
    longest_ttl_s
        The longest that any write gives.
    """

    keys: int
    popularity: Popularity
    sizes: Sequence[tuple[float, float, float]]
    ttl: float
    ttl_s: tuple[float, float]
    longest_ttl_s: float

    @property
    def mean_bytes(self) -> float:
        """Of memory, of one key."""
        return sum(
            share * ((1.0 - self.ttl) * plain + self.ttl * timed)
            for plain, timed, share in self.sizes
        )


class KeySample:
    """A sample of a node's keys.

    Attributes
    ----------
    scale
        Keys of the node for one of the sample.
    """

    def __init__(
        self,
        kinds: KeyKinds,
        requests: KeyRequests,
        *,
        room_bytes: float,
        duration_s: float,
        seed: int,
        begins_full: bool = True,
        most: int = _MOST,
    ) -> None:
        """Draw a sample.

        Parameters
        ----------
        room_bytes
            What keys may take at first; infinite without `maxmemory`.
        duration_s
            How long the node will be watched.
        most
            Keys of the sample.
        """
        classes = np.array(rank_classes(kinds.keys, kinds.popularity, most=_CLASSES))
        per_key = requests.rate_rps * classes[:, 1] / classes[:, 0]
        capacity = room_bytes / kinds.mean_bytes
        stays = math.inf
        if capacity < kinds.keys:
            stays = characteristic_requests(classes[:, 0], classes[:, 1], capacity)
        self.stays_s = stays / max(requests.rate_rps, 1e-12)
        """How long an unused key stays until it is evicted, by Che's approximation."""
        watched_s = min(self.stays_s, duration_s, kinds.ttl_s[0] if kinds.ttl else math.inf)
        # Only what stores a key counts where misses don't.
        storing = 1.0 if requests.stores_misses else max(requests.writes, 1e-6)
        enough = _ENOUGH / storing / watched_s
        mean = float(np.minimum(per_key, enough) @ classes[:, 0]) / kinds.keys
        self._warm_up_s = 0.0
        if begins_full and math.isfinite(self.stays_s):
            self._warm_up_s = min(_STAYS * self.stays_s, 2.0 * duration_s)
        affordable = _REQUESTS / max(mean * (duration_s + self._warm_up_s), 1e-12)
        count = round(min(kinds.keys, most, max(_FEWEST, affordable)))
        self._counts, self._per_key, self._weights = _groups(classes, kinds.keys / count)
        self.scale = kinds.keys / int(self._counts.sum())
        per_key = self._per_key * requests.rate_rps
        self._asked = np.minimum(per_key, enough)
        self._thinned = per_key / np.maximum(self._asked, 1e-300)
        self._requests = requests
        self._build(kinds, seed=seed)
        self.set_rate(requests.rate_rps)
        if begins_full:
            self._begin_full(kinds, capacity, seed=seed)
        self._since_s = 0.0
        self._before = np.zeros((2, len(self._counts)))
        self._forget()

    def warm_up(self) -> None:
        """Go on until what was there at first no longer matters, and forget what happened."""
        _compiled().advance_keys(pointer(self._memory), self._warm_up_s)
        self._since_s = self._warm_up_s
        self._forget()
        self.misses_per_read()

    def _forget(self) -> None:
        self._begun = int(self.state["there"])
        self.state["counts"] = np.zeros((), _RECORDS["counts"])

    def _build(self, kinds: KeyKinds, *, seed: int) -> None:
        count = int(self._counts.sum())
        rng = generator(seed, purpose=_SAMPLED)
        keys = np.zeros(count, _RECORDS["key"])
        # The places of keys in the engine's table have nothing to do with how popular they are.
        members = rng.permutation(count).astype(np.int32)
        keys["group"][members] = np.repeat(np.arange(len(self._counts)), self._counts)
        keys["place"] = keys["expiring"] = -1
        timed = rng.random(count) < kinds.ttl
        shares = np.array([share for _, _, share in kinds.sizes])
        size = rng.choice(len(shares), size=count, p=shares / shares.sum())
        table = np.array([sizes[:2] for sizes in kinds.sizes])
        keys["bytes"] = table[size, timed.astype(int)]
        keys["ttl_s"] = np.where(timed, kinds.ttl_s[1], 0.0)
        groups = np.zeros(len(self._counts), _RECORDS["group"])
        groups["keys"] = self._counts
        groups["first"] = np.cumsum(self._counts) - self._counts
        likely, alias = _alias(self._asked * self._counts)
        order, expiring_order = np.zeros((2, count), np.int32)
        self._arrays = (keys, groups, members, likely, alias, order, expiring_order)
        self.keys, self.groups = keys, groups
        self._memory = np.zeros(1, _RECORDS["keyspace"])
        state = self.state
        names = ("key", "group", "members", "likely", "alias", "order", "expiring_order")
        for name, array in zip(names, self._arrays, strict=True):
            state[name] = pointer(array)
        state["seed"], state["scale"] = seed, self.scale
        state["keys"], state["groups"] = count, len(groups)
        asked = self._requests
        shares = np.array([asked.reads, asked.writes, asked.deletes])
        state["action_up_to"] = np.cumsum(shares) / shares.sum()
        state["fills"] = asked.stores_misses
        state["ttl_least"] = kinds.ttl_s[0] / kinds.ttl_s[1]
        state["limit_bytes"] = math.inf
        state["clock_s"] = state["cycles"] = 1.0
        state["pool"]["key"] = -1
        state["cell_s"] = max(1e-3, 1.1 * kinds.longest_ttl_s / CONSTANTS["TIMES"])

    @property
    def state(self) -> np.void:
        """The record `keyspace` of the header, to read and to set."""
        return self._memory[0]

    def _begin_full(self, kinds: KeyKinds, capacity: float, *, seed: int) -> None:
        """Have keys that would be there: those that are asked for within the time a key stays."""
        rng = generator(seed, purpose=_BEGUN)
        rate = (self._per_key * self._requests.rate_rps)[self.keys["group"]]
        named = rate * (1.0 if self._requests.stores_misses else self._requests.writes)
        stays_s = np.where(self.keys["ttl_s"] > 0, np.minimum(self.stays_s, kinds.ttl_s[1]),
                           self.stays_s)  # fmt: skip
        there = rng.random(len(rate)) < -np.expm1(-named * stays_s)
        if math.isinf(self.stays_s) and not kinds.ttl:
            there[:] = capacity >= kinds.keys
        chosen = there.astype(np.uint8)
        _compiled().begin_keys(pointer(self._memory), pointer(chosen))
        found = self.keys["expiring"] >= 0
        # Written at some time within the time to live.
        left = rng.random(len(rate)) * self.keys["ttl_s"]
        self.keys["expires_s"][found] = left[found]
        self._count_times()
        self.keys["touched_s"] = -rng.exponential(1.0 / np.maximum(rate, 1e-12)).clip(
            0.0, min(self.stays_s, 1e7)
        )

    def _count_times(self) -> None:
        """Fill the calendar anew."""
        state = self.state
        expires = self.keys["expires_s"][self.keys["expiring"] >= 0]
        cells = np.floor(expires / state["cell_s"]).astype(int) % CONSTANTS["TIMES"]
        state["due"] = np.bincount(cells, minlength=CONSTANTS["TIMES"])
        state["stale"] = 0

    def set_rate(self, rate_rps: float) -> None:
        """Requests a second of the node, from now on."""
        usual = float(self._asked @ self._counts)
        self.state["requests_per_s"] = usual * rate_rps / max(self._requests.rate_rps, 1e-300)

    def advance(self, until_s: float) -> None:
        """Requests and expiry cycles until a time."""
        _compiled().advance_keys(pointer(self._memory), self._since_s + until_s)

    def write(self, *, first: float, last: float, ttl_s: float | None = None) -> None:
        """Write a range of keys, from one share of all of them to another.

        Parameters
        ----------
        ttl_s
            The time to live that they get, `longest_ttl_s` at most; without it as of other writes.
        """
        begin, end = round(first * len(self.keys)), round(last * len(self.keys))
        _compiled().write_keys(pointer(self._memory), begin, end - begin, ttl_s or 0.0)

    def misses_per_read(self, reads: float = 0.0) -> float:
        """Share of the reads since the last call that found nothing; NaN without reads.

        Parameters
        ----------
        reads
            How many there were of the node, where that is known.
        """
        now = np.array([self.groups["asked"][:, _READ], self.groups["missed"]], float)
        counted, misses = now - self._before
        self._before = now
        # A key that is stored when it is missed is missed once, however often it is asked for.
        real = misses * self._weights
        known = self._requests.stores_misses and not self.state["counts"]["refused"]
        if not known:
            real = real * self._thinned
        total = reads if known and reads else float((counted * self._weights * self._thinned).sum())
        return min(1.0, float(real.sum()) / total) if total > 0 else math.nan

    def check(self) -> None:
        """Compare what is counted along the way with the keys one by one.

        Raises
        ------
        RuntimeError
            They differ, which is a fault of the program.
        """
        if not _compiled().is_consistent(pointer(self._memory)):
            raise RuntimeError("keys were lost or made up")
        counts = self.state["counts"]
        gone = sum(int(counts[name]) for name in ("deleted", "evicted", "expired", "expired_asked"))
        if int(counts["created"]) - gone + self._begun != int(self.state["there"]):
            raise RuntimeError("more or fewer keys came than went and are there")


def _groups(classes: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of a sample: their keys, requests for one of these per request, and keys of the node
    that each stands for.

    The most popular keys share one, as many as it stands for.
    """
    counts, rates, weights = [], [], []
    keys = asked = left = 0.0
    for number, share in classes:
        keys, asked = keys + number, asked + share
        count = int(keys / scale + left + 1e-9)
        if count < 1:
            continue
        left += keys / scale - count
        counts.append(count)
        rates.append(asked / keys)
        weights.append(keys / count)
        keys = asked = 0.0
    if keys > 0:
        # What is left of the least popular ones goes to those before.
        weights[-1] += keys / counts[-1]
    return np.array(counts), np.array(rates), np.array(weights)


def _alias(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The alias method's tables (A. J. Walker, ACM TOMS 3(3), 1977): draw i evenly, and take it
    with `likely[i]`, `alias[i]` otherwise."""
    likely = weights / weights.sum() * len(weights)
    alias = np.arange(len(weights), dtype=np.int32)
    small = [i for i, share in enumerate(likely) if share < 1.0]
    large = [i for i, share in enumerate(likely) if share >= 1.0]
    while small and large:
        less, more = small.pop(), large[-1]
        alias[less] = more
        likely[more] -= 1.0 - likely[less]
        if likely[more] < 1.0:
            small.append(large.pop())
    for i in (*small, *large):
        likely[i] = 1.0
    return likely, alias
