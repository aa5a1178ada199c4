"""Pages that become dirty while a machine is copied."""

import math
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.overcommit.adaptive_rate import AdaptiveRate, migrate_adaptively
from forecache.models.layouts.generations import KeyLayout
from forecache.models.over_time.overcommit.manager import machine_dirtying
from forecache.models.over_time.overcommit.precopy import (
    PAGE_BYTES,
    MigrationLimits,
    bytes_per_key,
    even_writes,
    item_writes,
    key_writes,
    migrate,
    writes_together,
)
from forecache.models.over_time.overcommit.schema import Machines
from forecache.models.scenario.workload import Zipf

LAYOUTS = get_args(KeyLayout)

MB = 1e6


@given(
    pages=st.integers(1, 10**6),
    per_s=st.floats(1, 1e6),
    seconds=st.floats(1e-3, 1e3),
)
def test_even_writes_to_pages_of_one_item_follow_the_closed_form(
    pages: int, per_s: float, seconds: float
) -> None:
    # W pages written at w a second: W (1 - exp(-w t / W)) of them are dirty after t. An item as
    # large as a page reaches into two, which twice as many writes to pages give as well.
    items = item_writes(
        items=pages, item_bytes=PAGE_BYTES, writes_per_s=per_s, popularity="uniform"
    )
    reached = (2 * PAGE_BYTES - 1) / PAGE_BYTES
    expected = -pages * PAGE_BYTES * math.expm1(-reached * per_s * seconds / pages)
    assert items(seconds) == pytest.approx(expected, rel=1e-6, abs=1e-3)
    even = even_writes(per_s * PAGE_BYTES, pages * PAGE_BYTES)
    closed = -pages * PAGE_BYTES * math.expm1(-per_s * seconds / pages)
    assert even(seconds) == pytest.approx(closed)


@pytest.mark.parametrize("exponent", [0.7, 0.99, 1.3])
def test_popular_keys_are_a_sum_over_keys(exponent: float) -> None:
    keys, per_s = 3_000, 2_000.0
    weights = np.arange(1, keys + 1) ** -exponent
    rates = per_s * weights / weights.sum()
    found = item_writes(
        items=keys,
        item_bytes=256.0,
        writes_per_s=per_s,
        popularity=Zipf(zipf=exponent),
    )
    on_a_page = (PAGE_BYTES + 255) / 256
    for seconds in (0.01, 0.1, 1.0, 10.0):
        clean = np.exp(-rates * seconds).mean() ** on_a_page
        expected = keys * 256 * (1 - clean)
        assert found(seconds) == pytest.approx(expected, rel=0.02)


def test_items_laid_out_at_random_make_as_many_pages_dirty_as_drawn_ones() -> None:
    # A simulation of the same: items of 512 bytes, Zipf, in random order.
    draws = np.random.default_rng(7)
    keys, writes = 40_000, 5_000
    weights = np.arange(1, keys + 1) ** -0.99
    place = draws.permutation(keys)
    dirty = []
    for _ in range(20):
        first_byte = place[draws.choice(keys, writes, p=weights / weights.sum())] * 512
        pages = np.concatenate([first_byte // PAGE_BYTES, (first_byte + 511) // PAGE_BYTES])
        dirty.append(len(np.unique(pages)) * PAGE_BYTES)
    found = item_writes(items=keys, item_bytes=512, writes_per_s=writes, popularity=Zipf(zipf=0.99))
    # Here items don't straddle pages, so that 8 instead of 8.998 are on each.
    assert np.mean(dirty) < found(1.0) < 1.12 * np.mean(dirty)


@given(
    layout=st.sampled_from(LAYOUTS),
    keys=st.integers(1_000, 10**7),
    value_bytes=st.integers(1, 20_000),
    reads_per_s=st.floats(0, 1e6),
    writes_per_s=st.floats(0, 1e6),
    zipf=st.sampled_from([None, 0.8, 1.2]),
)
def test_dirty_memory_rises_with_time_and_stays_within_the_data(
    layout: str,
    keys: int,
    value_bytes: int,
    reads_per_s: float,
    writes_per_s: float,
    zipf: float | None,
) -> None:
    writes = key_writes(
        layout=layout,
        keys=keys,
        key_bytes=16,
        value_bytes=value_bytes,
        reads_per_s=reads_per_s,
        writes_per_s=writes_per_s,
        popularity="uniform" if zipf is None else Zipf(zipf=zipf),
    )
    dirty = [writes(seconds) for seconds in (0.0, 0.01, 1.0, 60.0, 1e6)]
    assert dirty[0] == pytest.approx(0.0, abs=1e-3)
    # Rounding is of the whole, so that next to no writes may seem to take back a bit of a byte.
    assert all(a <= b * (1 + 1e-12) + 1e-3 for a, b in pairwise(dirty))
    whole = keys * bytes_per_key(layout, keys=keys, key_bytes=16, value_bytes=value_bytes)
    assert dirty[-1] <= whole * (1 + 1e-9)


def test_reads_write_what_notes_the_last_use_and_no_values() -> None:
    def dirty(layout: str, reads_per_s: float, writes_per_s: float) -> float:
        writes = key_writes(
            layout=layout,
            keys=1_000_000,
            key_bytes=16,
            value_bytes=1_000,
            reads_per_s=reads_per_s,
            writes_per_s=writes_per_s,
            popularity="uniform",
        )
        return writes(1e9)

    # Redis keeps it in an object of 16 bytes, Valkey in one that the key is part of.
    assert dirty("dict", 1_000, 0) == pytest.approx(16 * MB, rel=0.01)
    assert 30 * MB < dirty("hashtable", 1_000, 0) < 70 * MB
    assert dirty("dict", 0, 1_000) > 1_000 * MB
    assert dirty("dict", 0, 0) == 0.0


def test_a_scenario_says_what_its_engines_are_asked() -> None:
    asked = {"reads_per_s_per_gb": 1_000, "writes_per_s_per_gb": 1_000, "value_bytes": 1_000}
    machines = Machines.model_validate({"count": 1, "requests": asked})
    small, large = (machine_dirtying(machines, gb * 1e9) for gb in (1, 8))
    # All keys and all rates grow with the machine; tables double at different sizes.
    assert large(10.0) == pytest.approx(8 * small(10.0), rel=0.1)
    # 10,000 writes reach about 1.25 pages each, those and the reads' objects and entries.
    assert 20_000 * PAGE_BYTES < small(10.0) < 60_000 * PAGE_BYTES


def test_each_page_is_held_up_once_in_a_round() -> None:
    # Nothing is written twice: as many pages as are written before the machine stops.
    writes = even_writes(0.2e9, 1e18)
    limits = MigrationLimits(blackout_s=0.05, resume_s=0.0)
    found = migrate(10e9, writes, bandwidth_bytes_per_s=1e9, limits=limits)
    running_s = found.duration_s - found.blackout_s
    assert found.dirtied_pages == pytest.approx(0.2e9 * running_s / PAGE_BYTES, rel=1e-3)
    assert found.slowed_s(2e-6) == pytest.approx(2e-6 * found.dirtied_pages)
    # 0.2 GB/s are 48,828 pages a second, each of which takes 2 us more.
    more = 2e-6 * 0.2e9 / PAGE_BYTES
    assert found.throughput_lost(2e-6) == pytest.approx(more / (1 + more), rel=1e-3)
    # A set of a few pages costs that many in each round, however often they are written.
    few = migrate(
        10e9,
        even_writes(1e12, 1e6),
        bandwidth_bytes_per_s=1e9,
        limits=MigrationLimits(within_rounds=False),
    )
    assert few.dirtied_pages == pytest.approx(few.rounds * 1e6 / PAGE_BYTES, rel=1e-3)


def test_after_a_round_only_what_was_written_in_it_is_left() -> None:
    limits = MigrationLimits(blackout_s=0.3, resume_s=0.02, within_rounds=False)
    idle = migrate(56e9, even_writes(0, 0), bandwidth_bytes_per_s=1e9, limits=limits)
    assert idle.blackout_s == pytest.approx(0.02)
    assert idle.duration_s == pytest.approx(56.02)
    busy = migrate(10e9, even_writes(0.1e9, 1e18), bandwidth_bytes_per_s=1e9, limits=limits)
    # Rounds of 10, 1 and 0.1 s; the last wrote 10 MB.
    assert busy.rounds == 2
    assert busy.blackout_s == pytest.approx(0.12, rel=1e-3)
    assert busy.sent_bytes == pytest.approx(11.1e9, rel=1e-3)


def test_an_adaptive_rate_follows_what_is_written_until_it_is_too_much() -> None:
    rates = AdaptiveRate(least_bytes_per_s=10e6, most_bytes_per_s=60e6, above_bytes_per_s=5e6)

    def moved(writes: Any) -> Any:
        return migrate_adaptively(
            500e6, writes, rates=rates, bandwidth_bytes_per_s=100e6, resume_s=0.01
        )

    # Nothing is written: one slow round.
    idle = moved(even_writes(0, 0))
    assert (idle.rounds, idle.duration_s, idle.blackout_s) == (1, 50.01, 0.01)
    # A steady trickle: the first round and then ever fewer until 256 KiB are left.
    slow = moved(even_writes(1e6, 1e18))
    assert slow.blackout_s <= 0.01 + 256 * 1024 / 100e6
    # Some pages written faster than may be sent: they are what is left.
    hot = moved(writes_together([even_writes(1e6, 1e18), even_writes(1e9, 20e6)]))
    assert hot.blackout_s == pytest.approx(0.01 + 20e6 / 100e6, rel=0.05)
