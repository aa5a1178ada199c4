"""Moving slots: round trips, what load does to it, buffers that fill, and no time from nowhere."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.over_time.cluster.migration import (
    IDLE,
    Atomic,
    KeyByKey,
    Link,
    MigrationWork,
    NodeLoad,
    Saving,
    atomic,
    key_by_key,
    keys_per_s,
    load_migration_profile,
    round_trips,
    saving,
)
from forecache.models.prediction.uncertainty import Steps
from forecache.sim.errors import InputError

LINK = Link(operator_rtt_s=300e-6, node_rtt_s=300e-6, bytes_per_s=1e9)
KEYS = load_migration_profile("redis-key-by-key").on(15.4)
STREAM = load_migration_profile("valkey-atomic").on(15.4)


def move(**more: Any) -> KeyByKey:
    options: dict[str, Any] = {"keys": 160, "value_bytes": 16384.0, "link": LINK, "primaries": 2}
    return key_by_key(KEYS, **(options | more))


def job(**more: Any) -> Atomic:
    options: dict[str, Any] = {
        "keys": 100_000.0, "value_bytes": 4096.0, "moving_share": 0.4, "data_bytes": 4e9,
        "link": LINK, "cores": 4.0,
    }  # fmt: skip
    return atomic(STREAM, **(options | more))


@given(keys=st.integers(0, 2000), pipeline=st.integers(1, 100))
def test_round_trips_are_those_of_the_blog_and_a_last_look(keys: int, pipeline: int) -> None:
    published = 3 * math.ceil(keys / pipeline) + 4  # valkey.io/blog/atomic-slot-migration
    assert round_trips(keys, primaries=2, pipeline=pipeline) == published + 1


def test_without_work_a_slot_takes_its_round_trips() -> None:
    link = replace(LINK, bytes_per_s=math.inf)
    slot = key_by_key(MigrationWork(), keys=160, value_bytes=100, link=link, primaries=4)
    assert slot.slot_s == pytest.approx(slot.round_trips * 300e-6)
    assert 4096 * slot.slot_s == pytest.approx((212_992 + 4096 * 3) * 300e-6)


def test_a_save_of_nodes_conf_is_waited_for_less_what_the_operator_is_late() -> None:
    link = replace(LINK, bytes_per_s=math.inf, operator_rtt_s=300e-6, node_rtt_s=200e-6)

    def slot(save_s: float) -> KeyByKey:
        saves = Saving(fsync_s=save_s, fsyncs=1.0)
        return key_by_key(
            MigrationWork(), keys=6, value_bytes=100, link=link, primaries=4, saves=saves
        )

    quick = slot(0.0)
    # The news is there after 100 us, the operator after 300.
    assert slot(150e-6).slot_s == pytest.approx(quick.slot_s)
    slow = slot(2e-3)
    assert slow.slot_s - quick.slot_s == pytest.approx(1.8e-3)
    assert slow.save_s == slow.longest_block_s == pytest.approx(2e-3)
    assert slow.source_blocked_s - quick.source_blocked_s == pytest.approx(2e-3)


def test_replicas_acknowledge_every_setslot_of_new_engines() -> None:
    plain, acknowledged = (
        move(saves=saving("valkey", version, fsync_ms=0.0, replicas=1), primaries=4).slot_s
        for version in ("7.2", "8.0")
    )
    # IMPORTING, MIGRATING and NODE at four primaries, a round trip between nodes each.
    assert acknowledged - plain == pytest.approx(6 * LINK.node_rtt_s)
    assert not saving("valkey", "9.0", replicas=0).acknowledged
    assert not saving("redis", "8.2", replicas=1).acknowledged
    # Redis writes over the old file before 7.2.
    assert saving("redis", "7.0").fsyncs < saving("redis", "7.2").fsyncs


@given(
    keys=st.integers(1, 500), size=st.floats(1, 1e6), busy=st.floats(0, 1), more=st.floats(0, 1),
    waiting=st.floats(0, 0.01),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_more_load_never_makes_a_move_faster(
    keys: int, size: float, busy: float, more: float, waiting: float
) -> None:
    low, high = sorted((busy, more))
    loads = [NodeLoad(busy=each, waiting_s=waiting) for each in (low, high)]
    times = [move(keys=keys, value_bytes=size, source=load, target=load).slot_s for load in loads]
    assert times[0] <= times[1] * (1 + 1e-9)
    assert times[0] >= move(keys=keys, value_bytes=size).slot_s * (1 - 1e-9)
    jobs = [job(value_bytes=size, source=load, target=load).duration_s for load in loads]
    assert jobs[0] <= jobs[1] * (1 + 1e-9)


def test_the_source_is_blocked_for_serialising_the_trip_and_restoring() -> None:
    slot = move(keys=10)
    own = (KEYS.dump_ns(10, 16384) + KEYS.restore_ns(10, 16384)) * 1e-9
    wire = 10 * 16384 / 1e9
    assert slot.longest_block_s == pytest.approx(own + wire + 300e-6)
    assert slot.source_blocked_s < slot.slot_s


def test_a_key_of_a_million_elements_blocks_its_source_for_longer_than_a_failover_takes() -> None:
    # 1.27 million members of 40 bytes in one key (redis issue 1616), at ten times the speed of one.
    slot = move(keys=1, value_bytes=1.27e6 * 40 * 80)
    assert slot.longest_block_s > 15.0


@given(busy=st.floats(0, 0.99))
def test_a_snapshot_gets_what_clients_leave(busy: float) -> None:
    load = NodeLoad(busy=busy, waiting_s=10.0)
    free = keys_per_s(STREAM, 512, bytes_per_s=1e12, source=IDLE, target=IDLE, cores=1)
    left = keys_per_s(STREAM, 512, bytes_per_s=1e12, source=load, target=IDLE, cores=1)
    assert left == pytest.approx((1 - busy) * free, rel=1e-3)


def test_a_buffer_that_fills_makes_a_move_start_again_for_ever() -> None:
    calm = job(source=NodeLoad(busy=0.1, writes_per_s=1_000, write_bytes=4096))
    storm = job(source=NodeLoad(busy=0.4, writes_per_s=400_000, write_bytes=4096))
    assert calm.outcome == "moved"
    assert calm.changes_s > 0
    assert storm.outcome == "buffer overrun"
    assert storm.duration_s == math.inf
    assert storm.buffered_bytes == 256 << 20


def test_parts_of_an_atomic_move_add_up() -> None:
    found = job(source=NodeLoad(busy=0.3, writes_per_s=2_000, write_bytes=4096))
    parts = found.fork_s + found.snapshot_s + found.changes_s + found.pause_s
    assert found.duration_s == pytest.approx(parts + STREAM.job_ms * 1e-3)
    assert max(found.source_share, found.target_share, found.child_share) <= 1 + 1e-9


def test_a_faster_host_moves_faster_in_proportion() -> None:
    assert KEYS.at_rate(2.0).dump_ns(10, 100) == pytest.approx(KEYS.dump_ns(10, 100) / 2)
    assert STREAM.at_rate(2.0).job_ms == STREAM.job_ms
    with pytest.raises(InputError, match="redis-key-by-key"):
        load_migration_profile("redis-key-by-kye")


@pytest.mark.parametrize("name", ["redis-key-by-key", "valkey-atomic"])
def test_work_that_is_off_by_nothing_is_the_nominal_one(name: str) -> None:
    profile = load_migration_profile(name)
    assert vars(profile.on(9.0, draw=Steps())) == pytest.approx(vars(profile.on(9.0)))


def test_bytes_are_more_uncertain_to_below_than_calls() -> None:
    profile = load_migration_profile("redis-key-by-key")
    low = profile.on(
        profile.rate_per_ns.best,
        draw=Steps(dict.fromkeys((f"{profile.id}.{name}" for name in profile.work), -1.96)),
    )
    leaves = {name: leaf.best for name, leaf in profile.work.items()}
    assert leaves["dump_call_ns"] / low.dump_call_ns == pytest.approx(1.5, rel=1e-3)
    assert leaves["dump_ns_per_byte"] / low.dump_ns_per_byte == pytest.approx(3.2, rel=1e-3)
