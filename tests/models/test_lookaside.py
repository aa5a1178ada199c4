"""A cache beside a database: closed forms, a real list of recently used keys, conservation."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.layouts.slabs import chunk_bytes, keys_that_fit
from forecache.models.memory.caches import characteristic_requests, hit_shares
from forecache.models.memory.lines import rank_classes
from forecache.models.over_time.caching import (
    Contents,
    Database,
    DatabaseSettings,
    Hashing,
    Tier,
    TierStep,
    groups_of,
    ketama_hash,
    ketama_ring,
    share_moved,
)
from forecache.models.scenario.workload import Zipf

NAMES = [f"10.0.0.{i + 1}:11211" for i in range(24)]
EVERYTHING = 1e15
counts = st.integers(1, 12)


def moved(before: int, after: int, hashing: Hashing) -> float:
    groups = groups_of([range(before), range(after)], hashing=hashing, names=NAMES)
    return share_moved(groups, 0, 1)


@pytest.mark.parametrize(("before", "after", "share"), [(3, 5, 0.8), (9, 10, 0.9), (3, 6, 0.5)])
def test_modulo_moves_what_published_guides_say(before: int, after: int, share: float) -> None:
    assert moved(before, after, "modulo") == pytest.approx(share)


@pytest.mark.parametrize(("before", "after", "share"), [(3, 5, 0.4), (9, 10, 0.1), (5, 3, 0.4)])
def test_ketama_moves_about_the_share_of_nodes_that_change(
    before: int, after: int, share: float
) -> None:
    assert moved(before, after, "ketama") == pytest.approx(share, abs=0.03)


@given(counts, counts)
def test_modulo_moves_what_the_closed_form_says(before: int, after: int) -> None:
    # Of lcm(n, m) consecutive hashes those below min(n, m) have the same remainder.
    kept = min(before, after) / math.lcm(before, after)
    assert moved(before, after, "modulo") == pytest.approx(1 - kept)


@given(counts, counts)
def test_ketama_moves_nothing_between_nodes_that_stay(before: int, after: int) -> None:
    groups = groups_of([range(before), range(after)], hashing="ketama", names=NAMES)
    old, new = groups.owners[:, groups.owners[0] != groups.owners[1]]
    both = min(before, after)
    assert not ((old < both) & (new < both)).any()
    assert groups.shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("hashing", ["modulo", "ketama"])
def test_groups_are_those_of_keys_hashed_one_by_one(hashing: Hashing) -> None:
    lists = [[0, 1, 2], [0, 1, 2, 3, 4], [0, 2, 4]]
    groups = groups_of(lists, hashing=hashing, names=NAMES)
    hashes = np.array([ketama_hash(b"key:%d" % i) for i in range(60_000)])
    owners = [
        np.array(nodes)[hashes % len(nodes)]
        if hashing == "modulo"
        else np.array(nodes)[ketama_ring([NAMES[n] for n in nodes]).owners(hashes)]
        for nodes in lists
    ]
    for group, share in zip(groups.owners.T, groups.shares, strict=True):
        same = np.logical_and.reduce([o == g for o, g in zip(owners, group, strict=True)])
        assert same.mean() == pytest.approx(share, abs=0.006)


def test_every_node_has_as_many_points() -> None:
    assert np.bincount(ketama_ring(NAMES[:3]).entries).tolist() == [160, 160, 160]


def test_memory_is_that_of_memcached() -> None:
    # Measured on memcached 1.6.18: chunk_size of `stats slabs`, curr_items when full.
    assert [chunk_bytes(16, size) for size in (100, 500, 1000)] == [192, 600, 1184]
    for mib, size, held in ((4, 500, 6988), (8, 100, 43_688), (16, 1000, 14_160)):
        assert keys_that_fit(mib * 2**20, key_bytes=16, sizes=[(size, 1.0)]) == pytest.approx(held)


def tier(
    lists: Sequence[Sequence[int]],
    *,
    hashing: Hashing = "modulo",
    keys: int = 5000,
    zipf: float | None = 0.99,
    capacity: float = EVERYTHING,
    rate_rps: float = 2000.0,
    duration_s: float = 60.0,
    coalescing: bool = False,
    warm: bool = True,
    database: DatabaseSettings | None = None,
) -> Tier:
    nodes = 1 + max(max(found) for found in lists)
    contents = Contents(
        rank_classes(keys, "uniform" if zipf is None else Zipf(zipf=zipf), most=64),
        groups_of(lists, hashing=hashing, names=NAMES),
        capacity_keys=[capacity] * nodes,
        requests_per_s=rate_rps,
        duration_s=duration_s,
        warm=warm,
    )
    settings = database or DatabaseSettings(capacity_qps=1e9, latency_ms=0)
    return Tier(contents, Database(settings), coalescing=coalescing)


def run(
    made: Tier, *, list_now: int, seconds: float, rate_rps: float = 2000.0, step_s: float = 0.05
) -> list[TierStep]:
    mix = [0.0] * len(made.contents.slot_of)
    mix[list_now] = 1.0
    weights = made.contents.weights(mix)
    by_node = made.contents.traffic(weights) * rate_rps * step_s
    return [made.step(by_node, weights, step_s) for _ in range(round(seconds / step_s))]


@given(st.integers(100, 100_000), st.floats(10, 1e5))
def test_an_empty_cache_fills_as_uniform_requests_come(keys: int, rate_rps: float) -> None:
    made = tier([[0, 1]], keys=keys, zipf=None, warm=False, rate_rps=rate_rps)
    steps = run(made, list_now=0, seconds=5.0, rate_rps=rate_rps)
    present = float(made.contents.present.sum())
    assert present == pytest.approx(keys * -math.expm1(-5 * rate_rps / keys), rel=1e-6)
    # Every key missed once.
    assert sum(step.misses.sum() for step in steps) == pytest.approx(present, rel=1e-6)


@settings(max_examples=15)
@given(st.floats(0.05, 0.9), st.floats(0.6, 1.3))
def test_steady_state_is_ches_and_stays(share: float, zipf: float) -> None:
    keys = 20_000
    made = tier([[0, 1, 2]], keys=keys, zipf=zipf, capacity=share * keys / 3)
    classes = np.array(rank_classes(keys, Zipf(zipf=zipf), most=64))
    lines, shares = classes.T
    time = characteristic_requests(lines / 3, shares / 3, share * keys / 3)
    che = float((shares * hit_shares(shares / lines, time)).sum())
    steps = run(made, list_now=0, seconds=20.0)
    assert steps[0].hit_share == pytest.approx(che, abs=0.005)
    assert steps[-1].hit_share == pytest.approx(che, abs=0.01)


def test_a_change_of_the_list_is_that_of_a_real_lru() -> None:
    """Three nodes that hold a third of the keys become five, request by request."""
    keys, rate_rps, capacity = 6000, 4000.0, 700
    made = tier(
        [range(3), range(5)], keys=keys, capacity=capacity, rate_rps=rate_rps, duration_s=30
    )
    predicted = [
        *run(made, list_now=0, seconds=5.0, rate_rps=rate_rps),
        *run(made, list_now=1, seconds=15.0, rate_rps=rate_rps),
    ]
    shares = [step.hit_share for step in predicted]
    chance = random.Random(3)
    weights = np.arange(1, keys + 1, dtype=float) ** -0.99
    ranks = chance.choices(range(keys), weights=weights.tolist(), k=round(rate_rps * 35))
    nodes: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(5)]
    hashes = [chance.randrange(15) for _ in range(keys)]
    hits = np.zeros(35)
    for i, rank in enumerate(ranks):
        second = int(i / rate_rps)
        node = nodes[hashes[rank] % (3 if second < 20 else 5)]
        hits[second] += rank in node
        node[rank] = None
        node.move_to_end(rank)
        if len(node) > capacity:
            node.popitem(last=False)
    seconds = np.array(shares).reshape(20, 20).mean(axis=1)
    assert np.abs(hits[15:] / rate_rps - seconds).max() < 0.03
    held = [len(node) for node in nodes]
    assert made.contents.keys_held() == pytest.approx(held, rel=0.05)


def test_a_restarted_node_misses_its_own_keys_only() -> None:
    made = tier([range(4)])
    made.contents.clear(2)
    [step] = run(made, list_now=0, seconds=0.05)
    assert step.misses[[0, 1, 3]].sum() == pytest.approx(0)
    assert step.misses[2] > 0.5 * step.hits[1]


def test_what_a_database_can_answer_at_once_is_as_good_as_any() -> None:
    ample = run(tier([range(3), range(5)]), list_now=1, seconds=3.0)
    enough = DatabaseSettings(capacity_qps=2000.0, latency_ms=0)
    limited = run(tier([range(3), range(5)], database=enough), list_now=1, seconds=3.0)
    assert [s.hit_share for s in limited] == pytest.approx([s.hit_share for s in ample])


def overloaded(abandoned: str, *, coalescing: bool = False) -> tuple[Tier, list[TierStep]]:
    """All keys are missed at once by a database with a tenth of the capacity."""
    settings = DatabaseSettings(
        capacity_qps=200.0,
        timeout_s=0.5,
        abandoned=abandoned,  # type: ignore[arg-type]
    )
    made = tier([[0]], warm=False, database=settings, coalescing=coalescing)
    return made, run(made, list_now=0, seconds=60.0)


def test_queries_whose_clients_gave_up_keep_a_cache_empty() -> None:
    collapsed, steps = overloaded("run")
    assert steps[-1].hit_share < 0.5
    assert sum(step.answered for step in steps[600:]) == 0
    assert steps[-1].busy == pytest.approx(1.0)
    relieved, steps = overloaded("cancelled")
    assert steps[-1].hit_share > 0.8
    for made in (collapsed, relieved):
        made.check()


def test_coalescing_asks_less_of_the_database() -> None:
    each = tier([range(3), range(5)], database=DatabaseSettings(capacity_qps=300.0, timeout_s=30))
    once = tier(
        [range(3), range(5)],
        database=DatabaseSettings(capacity_qps=300.0, timeout_s=30),
        coalescing=True,
    )
    asked = [sum(s.queries for s in run(made, list_now=1, seconds=10)) for made in (each, once)]
    assert asked[1] < 0.6 * asked[0]
    for made in (each, once):
        made.check()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_every_request_is_a_hit_or_answered_or_an_error_or_waits(data: st.DataObject) -> None:
    lists = [list(range(data.draw(counts))) for _ in range(2)]
    nodes = max(map(len, lists))
    made = tier(
        lists,
        hashing=data.draw(st.sampled_from(["modulo", "ketama"])),
        keys=data.draw(st.integers(2, 3000)),
        zipf=data.draw(st.none() | st.floats(0.3, 1.5)),
        capacity=data.draw(st.floats(0.0, 400.0) | st.just(EVERYTHING)),
        coalescing=data.draw(st.booleans()),
        warm=data.draw(st.booleans()),
        database=DatabaseSettings(
            capacity_qps=data.draw(st.floats(1.0, 5000.0)),
            latency_ms=data.draw(st.floats(0, 100)),
            timeout_s=data.draw(st.floats(0.05, 3.0)),
            abandoned=data.draw(st.sampled_from(["run", "cancelled"])),
            most_waiting=data.draw(st.none() | st.floats(0, 1000)),
        ),
    )
    chance = np.random.default_rng(data.draw(st.integers(0, 1000)))
    for _ in range(30):
        mixed = float(chance.choice([0.0, 1.0, chance.random()]))
        weights = made.contents.weights([mixed, 1.0 - mixed])
        reached = chance.integers(0, 300, nodes) * (made.contents.traffic(weights) > 0)
        up = chance.random(nodes) < 0.9
        straight = float(chance.integers(0, 50))
        step = made.step(reached.astype(float), weights, 0.1, straight=straight, up=up)
        assert step.hits + step.misses == pytest.approx(reached)
        assert (step.hits >= 0).all()
        assert 0 <= step.busy <= 1 + 1e-9
        if chance.random() < 0.1:
            made.contents.clear(int(chance.integers(nodes)))
        made.check()
        assert (made.contents.present + made.pending <= made.contents.keys * (1 + 1e-9)).all()
