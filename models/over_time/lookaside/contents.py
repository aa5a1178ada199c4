"""Which keys the nodes of a cache hold: by popularity, by owner, and by when they were last used.

Keys are counted in cells: those of one popularity class that belong to one group (`hashing.Groups`)
and lie on one node. Of a cell a number of keys is present, and these lie in bins by the time since
they were last touched: that is the node's list of the least recently used, and what does not fit is
taken from its end. In a steady state a key is there if it was asked for within the node's
characteristic time *T* (Che's approximation, `models/memory/waits.py`), where a run begins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...memory.caches import characteristic_requests
from .hashing import Groups

Floats = NDArray[np.float64]

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
