"""Slots: hashing, the fewest moves, every key in one place, and what a hot key does to a shard."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.over_time.cluster.slots import (
    SLOTS,
    apply,
    crc16,
    even_owners,
    keys_per_slot,
    rebalance,
    shard_shares,
    slot_of,
    slot_shares,
)

COUNTS = st.integers(1, 40)


def test_slots_of_known_keys() -> None:
    assert crc16(b"123456789") == 0x31C3  # check value of CRC-16/XMODEM
    assert slot_of(b"foo") == 12182  # redis-cli CLUSTER KEYSLOT foo
    assert slot_of(b"{user1000}.following") == slot_of(b"{user1000}.followers")
    assert slot_of(b"foo{}{bar}") == crc16(b"foo{}{bar}") % SLOTS
    assert slot_of(b"foo{{bar}}zap") == slot_of(b"{bar")


@pytest.mark.parametrize(
    ("before", "after", "moved"), [(3, 5, 0.4), (5, 3, 0.4), (3, 6, 0.5), (3, 4, 0.25)]
)
def test_resizing_moves_the_share_of_slots_that_must_move(
    before: int, after: int, moved: float
) -> None:
    moves = rebalance(even_owners(before), range(after))
    assert sum(len(move.slots) for move in moves) == pytest.approx(moved * SLOTS, abs=5)


@given(before=COUNTS, after=COUNTS, data=st.data())
@settings(max_examples=40, deadline=None)
def test_every_slot_has_one_owner_and_no_fewer_moves_would_do(
    before: int, after: int, data: st.DataObject
) -> None:
    owners = even_owners(before)
    stays = data.draw(st.sets(st.integers(0, 60), min_size=after, max_size=after))
    moves = rebalance(owners, sorted(stays))
    moved = [slot for move in moves for slot in move.slots]
    assert len(moved) == len(set(moved))
    counts = np.bincount(apply(owners, moves), minlength=61)
    assert counts.sum() == SLOTS
    assert set(np.flatnonzero(counts)) <= stays
    assert counts[sorted(stays)].max() - counts[sorted(stays)].min() <= 1
    # What a shard gives is at least what it has beyond the largest share.
    had = np.bincount(owners, minlength=61)
    share, larger = divmod(SLOTS, after)
    surplus = sum(int(max(0, had[s] - (share if s in stays else 0))) for s in range(61))
    assert surplus - larger <= len(moved) <= surplus
    for move in moves:
        assert move.source != move.target


@given(keys=st.integers(0, 10**6), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_keys_are_neither_made_nor_lost_by_moving(keys: int, seed: int) -> None:
    held = keys_per_slot(keys, np.random.default_rng(seed))
    owners = even_owners(3)
    after = apply(owners, rebalance(owners, [0, 1, 2, 7, 9]))
    assert held.sum() == keys
    for each in (owners, after):
        assert shard_shares(each, held.astype(float), 10).sum() == keys


def test_moving_a_slot_that_is_elsewhere_is_refused() -> None:
    owners = even_owners(2)
    moves = rebalance(owners, [0, 1, 2])
    with pytest.raises(ValueError, match="slots of shard"):
        apply(apply(owners, moves), moves)
    with pytest.raises(ValueError, match="at least one"):
        rebalance(owners, [])


def test_zipf_makes_slots_uneven_and_keeps_their_sum() -> None:
    rng = np.random.default_rng(4)
    held = keys_per_slot(1_000_000, rng)
    flat = slot_shares(held, zipf_exponent=None, rng=rng)
    steep = slot_shares(held, zipf_exponent=1.0, rng=rng)
    assert steep.sum() == pytest.approx(1.0)
    assert steep.max() > 20 * flat.max()
    # The first of a million keys under rank**-1 has 1 / (ln 1e6 + 0.577) of the requests.
    assert steep.max() == pytest.approx(1 / 14.39, rel=0.05)
