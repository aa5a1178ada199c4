"""Slots of a cluster: who has which, what lies in them, how traffic follows, and the fewest moves.

A key belongs to slot CRC16(key) modulo 16,384; of a key with `{...}` only what is between the first
braces counts (Redis cluster specification). Shards own slots, never keys, so the most popular key
of all loads one shard however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...scenario.workload import Zipf
from .nodes import Nodes
from .schema import ClusterScenario

SLOTS = 16_384
LOST = -1
"""Owner of a slot whose keys are lost: a shard died without a replica."""


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = (value << 1 ^ 0x1021 if value & 0x8000 else value << 1) & 0xFFFF
        table.append(value)
    return table


_CRC16 = _table()


def crc16(data: bytes) -> int:
    """CRC-16/XMODEM: polynomial 0x1021, no reflection, start 0 (`123456789` gives 0x31C3)."""
    value = 0
    for byte in data:
        value = (value << 8 & 0xFF00) ^ _CRC16[value >> 8 ^ byte]
    return value


def slot_of(key: bytes) -> int:
    """The slot of a key, its hash tag observed."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc16(key) % SLOTS


def even_owners(shards: int) -> NDArray[np.int32]:
    """Owner of each slot where every shard has one range of them, as `--cluster create` does."""
    return (np.arange(SLOTS) * shards // SLOTS).astype(np.int32)


@dataclass(frozen=True)
class Move:
    """Slots that go from one shard to another, in this order."""

    source: int
    target: int
    slots: tuple[int, ...]


def rebalance(owners: NDArray[np.int32], shards: Sequence[int]) -> list[Move]:
    """The fewest moves after which these shards own all slots evenly.

    A shard that stays gives only what it has too much, one that goes gives all. Numbers of slots
    differ by one at most; the larger shares go to those who own most, so that nothing moves for a
    remainder. Which slots a source gives: its first ones, as `valkey-cli --cluster rebalance` does.

    Parameters
    ----------
    owners
        Owner of each of the 16,384 slots.
    shards
        Numbers of those that shall own slots.

    Raises
    ------
    ValueError
        No shard is left.
    """
    if not shards:
        raise ValueError("at least one shard owns the slots")
    there = {*shards, *(int(owner) for owner in np.unique(owners) if owner != LOST)}
    has: dict[int, list[int]] = {shard: [] for shard in there}
    for slot, owner in enumerate(owners.tolist()):
        if owner != LOST:
            has[owner].append(slot)
    total = sum(len(slots) for slots in has.values())
    by_size = sorted(shards, key=lambda shard: (-len(has[shard]), shard))
    share, larger = divmod(total, len(shards))
    wants = {shard: share + (rank < larger) for rank, shard in enumerate(by_size)}
    gives = sorted(
        (s for s in has if len(has[s]) > wants.get(s, 0)), key=lambda s: (-len(has[s]), s)
    )
    moves = []
    for target in sorted(shards):
        lacks = wants[target] - len(has[target])
        for source in gives:
            surplus = len(has[source]) - wants.get(source, 0)
            count = min(lacks, surplus)
            if count > 0:
                moves.append(Move(source, target, tuple(has[source][:count])))
                del has[source][:count]
                lacks -= count
    return moves


def apply(owners: NDArray[np.int32], moves: Sequence[Move]) -> NDArray[np.int32]:
    """Owners after the moves.

    Raises
    ------
    ValueError
        A slot isn't where its move says.
    """
    after = owners.copy()
    for move in moves:
        slots = np.array(move.slots, dtype=np.int64)
        if np.any(after[slots] != move.source):
            raise ValueError(f"slots of shard {move.source}")
        after[slots] = move.target
    return after


def keys_per_slot(keys: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many keys lie in each slot: a hash spreads them like balls over boxes."""
    return rng.multinomial(keys, np.full(SLOTS, 1.0 / SLOTS)).astype(np.int64)


_PLACED_RANKS = 100_000
"""The most popular keys that are placed one by one under Zipf; the rest is spread by keys."""


def slot_shares(
    keys_in_slot: NDArray[np.int64],
    *,
    zipf_exponent: float | None,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Share of the requests that goes to each slot.

    Parameters
    ----------
    keys_in_slot
        From `keys_per_slot`.
    zipf_exponent
        Of the popularity of ranks; None: all keys alike.
    """
    keys = int(keys_in_slot.sum())
    shares = keys_in_slot / max(keys, 1)
    if zipf_exponent is not None and keys > 0:
        weights = np.arange(1, min(keys, _PLACED_RANKS) + 1, dtype=float) ** -zipf_exponent
        rest = _zipf_tail(len(weights), keys, zipf_exponent)
        placed = np.bincount(rng.integers(0, SLOTS, len(weights)), weights=weights, minlength=SLOTS)
        shares = (placed + rest * shares) / (weights.sum() + rest)
    return np.asarray(shares, dtype=np.float64)


def _zipf_tail(first: int, last: int, exponent: float) -> float:
    """Sum of rank**-exponent over first < rank <= last, by its integral between half ranks."""
    low, high = first + 0.5, last + 0.5
    if abs(exponent - 1.0) < 1e-9:
        return float(np.log(high / low))
    return float((high ** (1 - exponent) - low ** (1 - exponent)) / (1 - exponent))


def shard_shares(
    owners: NDArray[np.int32], shares: NDArray[np.float64], shards: int
) -> NDArray[np.float64]:
    """Share of the requests (or of anything given by slot) that each shard gets."""
    owned = owners != LOST
    found = np.bincount(owners[owned], weights=shares[owned], minlength=shards)
    return found.astype(np.float64)


# --- the map of a run -----------------------------------------------------------------------------


_KEYS_DRAWN = 10**9


class SlotMap:
    """Slots of a cluster's shards.

    Attributes
    ----------
    owners
        (16,384,) shard that has each slot.
    keys
        (16,384,) keys in it.
    key_bytes
        Memory of a key and its value.
    shares
        (16,384,) share of the commands that name one of its keys.
    primary
        Node that is a shard's primary; None while it has none.
    replica_share
        Share of the commands that go to replicas where a shard has any: reads of clients that
        asked for it (READONLY).
    unnoticed
        Replicas that have failed, and that clients go on reading from: they are left out of the
        slot table once they are declared failed.
    uncovered
        Shards whose primary is declared failed, and has no successor.
    minority
        Whether nodes see no majority of primaries.
    """

    def __init__(
        self, scenario: ClusterScenario, nodes: Nodes, *, shard_bytes: float, seed: int
    ) -> None:
        self._nodes = nodes
        data, shards = scenario.data, scenario.cluster.shards
        rng = np.random.default_rng([seed, 16_384])
        # A multinomial of more keys than this is as even as anybody can tell.
        drawn = min(data.keys, _KEYS_DRAWN)
        self.keys = keys_per_slot(drawn, rng).astype(np.float64) * (data.keys / drawn)
        exponent = data.popularity.zipf if isinstance(data.popularity, Zipf) else None
        self.shares = slot_shares(
            np.rint(self.keys).astype(np.int64), zipf_exponent=exponent, rng=rng
        )
        self.owners = even_owners(shards)
        self.key_bytes = shard_bytes * shards / max(float(self.keys.sum()), 1.0)
        self.primary: dict[int, int | None] = {shard: shard for shard in range(shards)}
        self.replica_share = 0.0
        self.unnoticed: set[int] = set()
        self.uncovered: set[int] = set()
        self.minority = False
        self._lost: dict[int, np.ndarray] = {}
        self._rng = rng

    @property
    def shards(self) -> list[int]:
        """Those that have a primary, in order."""
        return sorted(shard for shard, node in self.primary.items() if node is not None)

    def replicas(self, shard: int) -> list[int]:
        """Nodes of a shard that are up and not its primary."""
        nodes = self._nodes
        return [
            int(node)
            for node in np.flatnonzero(nodes.shard == shard)
            if node != self.primary.get(shard) and nodes.is_up(int(node))
        ]

    def lose(self, shard: int) -> None:
        """A shard's slots have no node that could serve them; clients go on asking for them."""
        self._lost[shard] = np.flatnonzero(self.owners == shard)
        self.owners[self._lost[shard]] = LOST

    def regain(self, shard: int) -> None:
        """A shard's node is back, with the slots that were lost."""
        if shard in self._lost:
            slots = self._lost.pop(shard)
            self.owners[slots[self.owners[slots] == LOST]] = shard

    def add_hot_key(self, share: float) -> int:
        """A single key gets so much of all commands from now on; returns its slot."""
        slot = int(self._rng.integers(0, SLOTS))
        self.shares *= 1.0 - share
        self.shares[slot] += share
        return slot

    def cool(self, slot: int, share: float) -> None:
        """Take a hot key's share away again."""
        self.shares[slot] -= share * self.shares.sum()
        self.shares = np.maximum(self.shares, 0.0)
        self.shares /= self.shares.sum()

    def spread(self) -> None:
        """Send commands to the nodes that have their slots, and count data there.

        A shard without a primary keeps its share: clients go on asking the node they know.
        """
        nodes = self._nodes
        count = max(self.primary) + 1
        asked = shard_shares(self.owners, self.shares, count)
        for shard, slots in self._lost.items():
            asked[shard] += self.shares[slots].sum()
        held = shard_shares(self.owners, self.keys, count)
        for shard in range(count):
            node = self.primary.get(shard)
            mine = np.flatnonzero(nodes.shard == shard)
            replicas = self.replicas(shard)
            replicas += [int(each) for each in mine if int(each) in self.unnoticed]
            for each in mine:
                factor = nodes.kind_of(int(each)).data_factor
                nodes.data_bytes[each] = held[shard] * self.key_bytes * factor
            if node is None:
                continue
            nodes.traffic[mine] = 0.0
            to_replicas = self.replica_share if replicas else 0.0
            nodes.traffic[node] = asked[shard] * (1.0 - to_replicas)
            for replica in replicas:
                nodes.traffic[replica] = asked[shard] * to_replicas / len(replicas)


# --- how clients learn that slots have moved ------------------------------------------------------

# A client that asks the former owner of a slot is told the new one (MOVED), asks that one, and
# fetches the whole slot table anew, so that it knows of all moves until then (Redis cluster
# specification). The more it asks, the sooner it learns of a move.


def share_still_redirected(unknown: float, *, requests_per_s: float, seconds: float) -> float:
    """Share of the requests that a mean client still sends to a former owner, some time later.

    It learns at the rate of its requests times the share of them that are redirected:
    du/dt = -requests × u².

    Parameters
    ----------
    unknown
        Share of the requests that go to slots whose move a client does not know of.
    requests_per_s
        Of one client, or of all that share a slot table.
    """
    return unknown / (1.0 + requests_per_s * unknown * seconds)
