"""The life of a node: keys that expire and are evicted, against closed forms, and whole runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from forecache.hwprofiles.files import FieldError, parse
from forecache.models.footprint.answers import memory
from forecache.models.memory.lines import rank_classes
from forecache.models.over_time.node_life.keyspace import (
    CONSTANTS,
    KeyKinds,
    KeyRequests,
    KeySample,
)
from forecache.models.over_time.node_life.rules import life_rules
from forecache.models.over_time.node_life.run import run_node_life
from forecache.models.over_time.node_life.schema import NodeLife
from forecache.models.results.series import Run
from forecache.models.scenario.workload import Popularity, Zipf
from forecache.sim.errors import InputError

KEY_BYTES = 100.0
ZIPF = Zipf(zipf=0.9)


def keyspace(
    policy: str = "KEEP",
    *,
    keys: int = 40_000,
    holds: float = math.inf,
    rate_rps: float = 1_000.0,
    popularity: Popularity = "uniform",
    ttl_s: float = 0.0,
    duration_s: float = 800.0,
    writes: float = 0.0,
    stores_misses: bool = True,
    samples: int = 5,
    full: bool = True,
    most: int = 200_000,
    **state: float,
) -> KeySample:
    """Keys of 100 bytes, of which `holds` have room; expiry cycles cost a microsecond a key."""
    ttl = (ttl_s or 1.0,) * 2
    kinds = KeyKinds(keys, popularity, [(KEY_BYTES, KEY_BYTES, 1.0)], float(ttl_s > 0), ttl, ttl[0])
    found = KeySample(
        kinds,
        KeyRequests(rate_rps, 1.0 - writes, writes, 0.0, stores_misses),
        room_bytes=holds * KEY_BYTES,
        duration_s=duration_s,
        seed=1,
        begins_full=full,
        most=most,
    )
    chosen = {
        "policy": CONSTANTS[policy], "samples": samples, "has_pool": 1, "log_factor": 10.0,
        "decay_s": 60.0, "period_s": 0.1, "until_cycle_s": 0.1, "scans": 1, "sample": 20.0,
        "accepted": 0.1, "slow_limit_s": 0.025, "fast_limit_s": 1e-3, "fast_cycles_per_s": 500.0,
        "look_ns": 300.0, "expire_ns": 1_000.0, **state,
    }  # fmt: skip
    for name, value in chosen.items():
        found.state[name] = value
    if math.isfinite(holds):
        found.state["limit_bytes"] = holds * KEY_BYTES / found.scale
    return found


def hits(space: KeySample, duration_s: float = 800.0) -> float:
    space.warm_up()
    space.advance(duration_s)
    space.check()
    return 1.0 - space.misses_per_read()


def characteristic_hits(keys: int, holds: float, rate_rps: float, *, random: bool) -> float:
    """Che's approximation for LRU, Gelenbe's exact form for random eviction."""
    count, share = np.array(rank_classes(keys, ZIPF, most=400)).T
    rate = rate_rps * share / count

    def there(stays_s: float) -> np.ndarray:
        asked = rate * stays_s
        return asked / (1.0 + asked) if random else -np.expm1(-asked)

    stays_s = brentq(lambda x: float(count @ there(x)) - holds, 1e-6, 1e9)
    return float(share @ there(stays_s))


@pytest.mark.parametrize("policy", ["ANY", "LEAST_RECENT", "LEAST_FREQUENT", "LEAST_MODIFIED"])
def test_of_equally_popular_keys_as_many_are_found_as_there_is_room_for(policy: str) -> None:
    assert hits(keyspace(policy, holds=12_000)) == pytest.approx(0.3, abs=0.005)


def test_random_eviction_hits_as_often_as_its_closed_form() -> None:
    found = hits(keyspace("ANY", holds=12_000, popularity=ZIPF))
    assert found == pytest.approx(
        characteristic_hits(40_000, 12_000, 1_000.0, random=True), abs=0.005
    )


def test_with_many_samples_the_least_recently_used_goes_as_in_lru() -> None:
    space = keyspace("LEAST_RECENT", holds=12_000, popularity=ZIPF, samples=64, clock_s=0.001)
    exact = characteristic_hits(40_000, 12_000, 1_000.0, random=False)
    assert hits(space) == pytest.approx(exact, abs=0.005)


def test_few_samples_and_no_pool_evict_worse() -> None:
    found = [
        hits(keyspace("LEAST_RECENT", holds=12_000, popularity=ZIPF, samples=n, has_pool=pool))
        for n, pool in ((1, 0), (5, 0), (5, 1))
    ]
    assert found == sorted(found)
    random = characteristic_hits(40_000, 12_000, 1_000.0, random=True)
    assert found[0] == pytest.approx(random, abs=0.005)


def test_a_sample_of_a_tenth_says_the_same() -> None:
    for policy in ("LEAST_RECENT", "LEAST_FREQUENT", "ANY"):
        all_keys, some = (
            keyspace(policy, keys=200_000, holds=60_000, popularity=ZIPF, most=most)
            for most in (200_000, 20_000)
        )
        assert (all_keys.scale, some.scale) == (1.0, 10.0)
        assert hits(some) == pytest.approx(hits(all_keys), abs=0.01)


@pytest.mark.parametrize("scans", [0, 1])
def test_keys_with_a_time_to_live_are_there_as_long_as_they_were_written_within_it(
    scans: int,
) -> None:
    space = keyspace(ttl_s=10.0, writes=1.0, rate_rps=2_000.0, scans=scans, full=False,
                     accepted=0.1 if scans else 0.25)  # fmt: skip
    space.advance(120.0)
    space.check()
    alive = float(space.state["there"] - space.state["stale"]) * space.scale
    assert alive == pytest.approx(40_000 * -math.expm1(-2_000 * 10 / 40_000), rel=0.02)
    # Cycles that go on at that share of what they see leave more than that: keys that a scan has
    # passed go on expiring, and of samples that vary few stop one.
    accepted = 0.1 if scans else 0.25
    assert accepted < space.state["stale"] / space.state["there"] < 0.55


def test_keys_that_expire_together_are_gone_as_fast_as_the_limit_of_cycles_allows() -> None:
    space = keyspace(keys=1_000_000, ttl_s=10.0, rate_rps=1e-9, full=False, fast_cycles_per_s=0.0)
    space.write(first=0.0, last=1.0)
    space.advance(10.0)
    assert space.state["stale"] <= 0.01 * space.state["there"]
    per_s = 0.25 / 1.3e-6
    space.advance(11.0)
    left = float(space.state["there"]) * space.scale
    assert left == pytest.approx(1_000_000 - per_s, rel=0.05)
    space.advance(20.0)
    assert float(space.state["there"]) * space.scale < 0.12 * 1_000_000
    assert space.state["counts"]["longest_cycle_s"] == pytest.approx(0.025)


def test_without_eviction_writes_are_refused_where_there_is_no_room() -> None:
    space = keyspace("KEEP", holds=12_000, writes=0.5, full=False)
    space.advance(200.0)
    space.check()
    assert space.state["there"] * space.scale == pytest.approx(12_000, abs=2)
    assert space.state["counts"]["refused"] > 0
    assert space.state["counts"]["evicted"] == 0


def test_of_keys_with_a_time_to_live_those_with_the_least_left_go_first() -> None:
    space = keyspace("SHORTEST_TTL", holds=12_000, ttl_s=5_000.0, full=False, samples=64,
                     is_volatile=1, ttl_least=0.2)  # fmt: skip
    space.advance(500.0)
    space.check()
    keys = space.keys
    left = keys["expires_s"][keys["place"] >= 0] - 500.0
    # Drawn evenly from 1,000 to 5,000 s; the ends that are near were evicted.
    assert space.state["counts"]["evicted"] > 0
    assert np.quantile(left, 0.05) > 1_500.0


@settings(max_examples=25, deadline=None)
@given(
    policy=st.sampled_from(
        ["KEEP", "ANY", "LEAST_RECENT", "LEAST_FREQUENT", "SHORTEST_TTL", "LEAST_MODIFIED"]
    ),
    holds=st.integers(10, 3_000),
    writes=st.floats(0.0, 0.9),
    ttl_s=st.sampled_from([0.0, 0.5, 20.0]),
    stores_misses=st.booleans(),
    full=st.booleans(),
)
def test_keys_are_neither_lost_nor_made_up(
    policy: str, holds: int, writes: float, ttl_s: float, stores_misses: bool, full: bool
) -> None:
    space = keyspace(policy, keys=2_000, holds=holds, writes=writes, ttl_s=ttl_s, full=full,
                     stores_misses=stores_misses, is_volatile=float(ttl_s > 0.0))  # fmt: skip
    for until_s in (0.3, 5.0, 40.0):
        space.advance(until_s)
        space.check()
        assert space.state["bytes"] <= space.state["limit_bytes"] + KEY_BYTES


def life(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "node_life", "duration_s": 3_600, "host": "m7i.large", "engine": "redis",
        "engine_version": "7.2", "data": {"keys": 1_000_000, "value_bytes": 200},
        "demand": {"rate_rps": 5_000, "mix": {"get": 0.9, "set": 0.1}}, **changes,
    }  # fmt: skip


def ran(**changes: Any) -> Run:
    return run_node_life(parse(NodeLife, life(**changes), file="test"), 1, lambda _line: None)


def values(run: Run, panel: str, name: str) -> np.ndarray:
    [found] = [each for each in run.series if (each.panel, each.name) == (panel, name)]
    return found.values


def fact(run: Run, name: str) -> Any:
    [found] = [each.value for each in run.facts if each.name == name]
    return found


def test_a_node_with_room_for_all_keys_finds_them_and_takes_what_memory_says() -> None:
    run = ran(data={"keys": 1_000_000, "value_bytes": 200, "begins": "full"})
    assert values(run, "hits", "hits")[-1] == pytest.approx(1.0)
    assert values(run, "keys", "keys")[-1] == pytest.approx(1_000_000)
    data = [{"type": "string", "keys": 1_000_000, "value_bytes": 200}]
    asked = {"kind": "memory", "engine": "redis", "engine_version": "7.2", "data": data}
    used = memory(asked).points[0].used_memory_bytes.value
    assert values(run, "memory", "used memory")[-1] == pytest.approx(used, rel=0.01)


def test_a_full_node_stays_at_its_limit_and_says_when_it_was_reached() -> None:
    limit = 150 * 2**20
    run = ran(
        settings={"maxmemory_bytes": limit, "maxmemory_policy": "allkeys-lru"},
        data={"keys": 1_000_000, "value_bytes": 200, "begins": "empty"},
        stores_misses=True,
    )
    used = values(run, "memory", "used memory")
    assert used.max() <= limit * 1.001
    assert used[-1] > 0.99 * limit
    [full] = [mark for mark in run.marks if "memory is full" in mark.what]
    assert 0.0 < full.time_s < 3_600.0


def test_a_snapshot_stops_the_node_and_copies_pages() -> None:
    run = ran(events=[{"event": "snapshot", "at_s": 1_000, "child_s": 60}])
    resident = values(run, "memory", "resident")
    assert resident.max() > 1.02 * resident[0]
    p99 = values(run, "latency", "p99")
    assert p99[int(1_000 / 12)] == p99.max()
    # Half a wait for DRAM, of some 100 to 250 ns, a page of 4 KiB.
    per_page_ns = 1e6 * fact(run, "longest stop of a fork") / (resident[0] / 4096)
    assert 50 < per_page_ns < 125


def test_the_kernel_kills_a_node_whose_snapshot_needs_more_than_there_is() -> None:
    events = [{"event": "snapshot", "at_s": 1_000, "child_s": 600}]
    run = ran(memory_bytes=400 * 2**20, events=events)
    [killed] = [mark for mark in run.marks if "may kill" in mark.what]
    assert 1_000 < killed.time_s <= 1_600


def test_a_job_writes_besides_what_clients_ask_and_takes_its_time_of_the_main_thread() -> None:
    load = {"event": "load", "at_s": 1_200, "over_s": 1_200, "ttl_s": 300}
    run = ran(events=[load])
    besides = values(run, "requests", "written besides")
    assert besides[:99].max() == 0.0
    assert besides[110:190] == pytest.approx(1_000_000 / 1_200, rel=0.01)
    busy = values(run, "main thread", "commands")
    assert busy[150] > 1.05 * busy[50]


def test_keys_of_a_job_have_one_time_to_live_whatever_other_writes_give() -> None:
    space = keyspace(ttl_s=100.0, rate_rps=1e-9, full=False, ttl_least=0.1)
    space.write(first=0.0, last=0.5, ttl_s=60.0)
    space.write(first=0.5, last=1.0)
    expires = space.keys["expires_s"]
    assert expires[: len(expires) // 2] == pytest.approx(60.0)
    assert expires[len(expires) // 2 :].min() < 15.0


def gone(lasts_s: float, **changes: Any) -> Run:
    """A replica is gone from 600 s on; its node has 500 writes a second of 280 bytes each."""
    return ran(
        replicas={"sync_delay_s": 0, "backlog_mbyte": 1, **changes},
        events=[{"event": "lose_replica", "at_s": 600, "lasts_s": lasts_s}],
    )


def test_a_replica_that_missed_less_than_the_backlog_holds_gets_only_that() -> None:
    # 2^20 bytes at 500 a second of 16 + 200 + 64 bytes.
    held_s = 2**20 / (500 * 280)
    run = gone(0.5 * held_s)
    assert fact(run, "the backlog holds") == pytest.approx(held_s, rel=0.05)
    assert (fact(run, "partial syncs"), fact(run, "full syncs")) == (1, 0)
    run = gone(30.0)
    assert (fact(run, "partial syncs"), fact(run, "full syncs")) == (0, 1)
    assert fact(run, "longest stop of a fork") > 1.0


def test_a_full_sync_whose_changes_overrun_their_buffer_never_ends() -> None:
    run = gone(30.0, buffer_mbyte=0.05)
    assert fact(run, "syncs that never end") == "yes"
    assert fact(run, "full syncs") == 0
    assert "a replica never gets its data" in run.summary
    assert "syncs that never end" not in [each.name for each in gone(30.0).facts]


@pytest.mark.parametrize(
    ("engine", "version", "policy"),
    [
        ("redis", "3.2", "allkeys-lfu"),
        ("redis", "8.4", "allkeys-lrm"),
        ("valkey", "9.1", "volatile-lrm"),
    ],
)
def test_a_policy_that_a_version_lacks_is_refused(engine: str, version: str, policy: str) -> None:
    with pytest.raises(FieldError, match="maxmemory_policy"):
        life_rules(engine, version, policy=policy, hz=10, effort=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings": {"maxmemory_policy": "volatile-lru"}}, "maxmemory_policy.*data.ttl_s"),
        ({"data": {"keys": 10, "ttl": 0.5}}, "ttl_s"),
        ({"events": [{"event": "snapshot", "at_s": 4_000}]}, r"events\[0\].at_s"),
        ({"settings": {"maxmemory_bytes": 1_000}}, "maxmemory_bytes"),
        ({"settings": {"maxmemory_policy": "allkeys-lrm"}}, "volatile-ttl with redis 7.2"),
        ({"engine": "memcached", "engine_version": "1.6"}, "field 'engine': found 'memcached'"),
        ({"events": [{"event": "lose_replica", "at_s": 1, "lasts_s": 1}]}, "replicas"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ran(**changes)
