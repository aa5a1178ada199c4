"""The slot map of a cluster: which shard has which slot, what lies in a slot, and who moves what.

A key belongs to slot CRC16(key) modulo 16,384; of a key with `{...}` only what is between the first
braces counts (Redis cluster specification). Shards own slots, never keys, so the most popular key
of all loads one shard however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
