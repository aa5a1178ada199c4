"""Intervals of used memory: states of tables and buffers, and the model's errors."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forecache
from forecache.models.footprint.errors import (
    MANAGED_ERROR,
    footprint_errors,
    used_interval,
)
from forecache.models.footprint.schema import MemoryScenario, Strings
from forecache.models.footprint.weigh import NodeFootprint, beside_of, key_weight, node_of, weigh
from forecache.models.layouts.allocator import size_class, untouched_bytes
from forecache.models.layouts.blocks import query_buffer_bytes, spare_room
from forecache.models.layouts.generations import GENERATIONS, generation
from forecache.models.layouts.tables import last_moving, slot_tables_bytes, table_bytes
from forecache.sim.statistics import Estimate

MIB = 2**20


def strings(keys: int, value_bytes: int = 100) -> list[dict[str, Any]]:
    return [{"type": "string", "keys": keys, "value_bytes": value_bytes}]


def interval(data: Sequence[Any], **given_: Any) -> Estimate:
    scenario = MemoryScenario.model_validate({"engine": "redis", "data": data} | given_)
    node = node_of(scenario)
    weight = weigh(node, scenario.data, beside=beside_of(scenario, node))
    return used_interval(scenario, node.generation, weight)


def relative(found: Estimate) -> float:
    return (found.high - found.low) / found.value


# --- where tables stand --------------------------------------------------------------------------


def moved_after(buckets: int, each_moves: float) -> int:
    """Entries when a dict that doubled at `buckets` entries has moved them, step by step."""
    left, entries = float(buckets) * -math.expm1(-1.0), buckets
    while left > 0:
        entries += 1
        left -= each_moves
    return entries


def test_a_dict_moves_until_every_bucket_that_is_not_empty_was_moved() -> None:
    assert last_moving("dict", 2048) == moved_after(1024, 1.0)
    # Who looks first, as SET and ZADD do, moves two, and is done before.
    assert moved_after(1024, 2.0) < last_moving("dict", 2048) < 2048
    assert last_moving("hashtable", 2048) == 7 * 1024 + 1024
    assert last_moving("dict", 4) == last_moving("hashtable", 1) == 0


def test_the_old_array_counts_only_while_it_may_be_there() -> None:
    at = last_moving("dict", 2**20)
    assert table_bytes("dict", at, "jemalloc").moving == 8 * 2**19
    assert table_bytes("dict", at + 1, "jemalloc").moving == 0.0
    assert table_bytes("dict", at + 1, "jemalloc").rehash == 8 * 2**19


@given(st.floats(1, 1e6))
def test_of_slots_those_move_that_may(entries: float) -> None:
    found = slot_tables_bytes("dict", entries, slots=100, struct_bytes=72, allocator="jemalloc")
    assert 0.0 <= found.moving <= found.rehash + 1e-6


def test_a_child_stops_moves_so_that_they_may_end_late() -> None:
    """Beyond where a table must have moved, only a child keeps the old array."""
    keys = last_moving("dict", 2**23) + 10
    without = interval(strings(keys), engine_version="7.0")
    having = interval(strings(keys), engine_version="7.0", forking={})
    assert without.value == having.value
    assert having.high - without.high == pytest.approx(8 * 2**22)
    early = interval(strings(2**22 + 10), engine_version="7.0")
    assert early.high - early.value > 8 * 2**21


# --- large arguments ------------------------------------------------------------------------------


def grown(length: int) -> int:
    """What sdsMakeRoomFor makes of a string."""
    return 2 * length if length < MIB else length + MIB


@pytest.mark.parametrize("length", [1, 32 * 1024 - 1])
def test_short_values_have_no_spare_room(length: int) -> None:
    for g in GENERATIONS:
        assert spare_room(g, length) == (0, 0, 0)
        assert query_buffer_bytes(g, length) == 0


def test_up_to_2_6_15_a_value_keeps_all_room_or_less() -> None:
    g = generation("redis", "2.6")
    for length in (40_000, MIB, 4 * MIB):
        room = spare_room(g, length)
        assert (room.least, room.most) == (0, grown(length + 2) - length)
        assert room.usual == room.most // 2
    # A thousand values of 1 MiB take between one and two GiB, and are resident as one.
    asked = {"kind": "memory", "engine": "redis", "engine_version": "2.6"}
    [point] = forecache.memory(asked | {"data": strings(1024, MIB)}).points
    assert point.used_memory_bytes.low < 1.06 * 2**30 < 1.9 * 2**30 < point.used_memory_bytes.high
    assert point.resident_bytes == pytest.approx(1.05 * 2**30, rel=0.02)


def test_later_versions_keep_a_tenth_at_most() -> None:
    for version in ("2.6.16", "2.6.17", "2.8", "6.2"):
        g = generation("redis", version)
        assert spare_room(g, MIB) == (0, 0, MIB // 10)
        # From 10 MiB on, what is grown ahead is no more than a tenth.
        longest = spare_room(g, 11 * MIB)
        assert longest.most == MIB + 2
        assert longest.usual == (0 if version == "6.2" else MIB + 2)
    for engine, version in (("redis", "7.0"), ("redis", "8.6"), ("valkey", "9.1")):
        assert spare_room(generation(engine, version), 11 * MIB) == (0, 0, 0)


def test_redis_2_8_needs_a_chunk_more_for_what_it_grew_ahead() -> None:
    """Measured: six values of 11 MiB take 101,473,792 bytes, chunks of 16 MiB, not of 12."""
    node = NodeFootprint(generation("redis", "2.8"), "jemalloc_3")
    [population] = [Strings(type="string", keys=1, value_bytes=11 * MIB)]
    each = key_weight(node, population)
    assert each.blocks.value == 16 * MIB
    assert each.fewer == 4 * MIB
    assert each.untouched == 16 * MIB - (11 * MIB + 4096)


def test_connections_that_write_large_values_keep_a_buffer_as_large() -> None:
    value = 3 * MIB
    kept = {
        version: query_buffer_bytes(generation("redis", version), value)
        for version in ("2.8", "6.2", "8.0")
    }
    assert kept == {
        "2.8": 8 + grown(value + 2) + 1,
        "6.2": 9 + value + 2 + 1,
        "8.0": 9 + value + 2 + 1,
    }
    few, many = (interval(strings(10, value), clients=n, engine_version="7.0") for n in (1, 11))
    more = many.high - few.high
    assert more > 10 * size_class(kept["8.0"], "jemalloc")
    idle, busy = few.low, many.low
    assert busy - idle < 10 * 3000


def test_ends_of_blocks_are_not_resident() -> None:
    assert untouched_bytes(5 * 4096, 2 * 4096 + 1) == 2 * 4096
    assert untouched_bytes(4096, 10) == 0
    [point] = forecache.memory(
        {"kind": "memory", "engine": "redis", "data": strings(100, 3 * MIB)}
    ).points
    # 3 MiB lie in blocks of 3.5.
    assert point.used_memory_bytes.value > 350 * MIB
    assert point.resident_bytes < 330 * MIB


def test_blocks_of_new_jemalloc_are_whole_pages_above_32_kib() -> None:
    for size in (1, 100, 14_000, 32 * 1024):
        assert size_class(size, "system_jemalloc_5.3.1") == size_class(size, "system_jemalloc")
    assert size_class(60_006, "system_jemalloc_5.3.1") == 15 * 4096
    assert size_class(60_006, "system_jemalloc") == 65_536


# --- errors ---------------------------------------------------------------------------------------


def test_what_was_measured_is_known_better_than_what_was_not() -> None:
    hashes = [{"type": "hash", "keys": 1, "fields": 100_000}]
    measured = relative(interval(hashes, engine_version="7.0"))
    other = relative(interval(hashes, engine_version="7.2"))
    newer = relative(interval(hashes, engine_version="9.9"))
    assert measured < 0.2 * other
    assert newer > 0.8 * other


def test_glibc_is_known_less_well_than_jemalloc() -> None:
    data = strings(1_500_000)
    for version in ("8.0", "9.1"):
        known = {"engine": "valkey", "engine_version": version}
        libc, own = interval(data, allocator="libc", **known), interval(data, **known)
        assert libc.value - libc.low > 3 * (own.value - own.low)


def test_errors_of_types_are_independent_and_those_of_one_are_not() -> None:
    def half(data: list[dict[str, Any]]) -> float:
        found = interval(data, engine_version="7.0", clients=0)
        return found.value - found.low

    one = {"type": "set", "keys": 10_000, "members": 1000}
    other = {"type": "list", "keys": 10_000, "elements": 1000}
    assert half([one, one]) == pytest.approx(2 * half([one]), rel=0.02)
    assert half([one, other]) == pytest.approx(math.hypot(half([one]), half([other])), rel=0.02)


def test_a_managed_engine_may_add_something() -> None:
    data = strings(1_000_000)
    managed = interval(data, engine="elasticache-valkey", engine_version="8.0")
    own = interval(data, engine="valkey", engine_version="8.0")
    assert managed.value == own.value
    assert managed.high > math.exp(0.95 * MANAGED_ERROR) * own.value


def test_every_version_that_errors_name_is_known_with_all_types() -> None:
    errors = footprint_errors()
    types = {"string", "set", "hash", "sorted_set", "list"}
    assert set(errors.others) == types
    for each in errors.versions:
        assert set(each.types) == types
        assert generation(each.engine, each.version).server_measured


@given(st.sampled_from(GENERATIONS), st.integers(1, 10**7), st.integers(0, 10**6))
def test_the_value_is_inside(g: Any, keys: int, value_bytes: int) -> None:
    found = interval(strings(keys, value_bytes), engine=g.engine, engine_version=g.versions[0])
    assert 0.0 <= found.low <= found.value <= found.high


def test_answers_have_intervals(checkout: Path) -> None:
    plain = json.loads(json.dumps(forecache.memory(checkout / "examples/memory.yaml").to_dict()))
    for point in plain["points"]:
        used = point["used_memory_bytes"]
        assert used["low"] < used["value"] < used["high"]
        assert point["resident_low_bytes"] < point["resident_bytes"] < point["resident_high_bytes"]
        fits = point["fits"]
        assert fits["keys_low"] < fits["keys"] < fits["keys_high"]
