"""Memory footprint: closed forms per key, published totals, and laws that hold of any data."""

from collections.abc import Sequence
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.articles.used_memory import used_memory_bytes
from forecache.models.footprint.answers import Mixture, keys_that_fit, limits_of
from forecache.models.footprint.schema import (
    Hashes,
    Lists,
    MemoryScenario,
    Population,
    Sets,
    SortedSets,
    Streams,
    Strings,
)
from forecache.models.footprint.weigh import NodeFootprint, key_weight, node_of, weigh
from forecache.models.layouts.allocator import Allocator, size_class
from forecache.models.layouts.generations import GENERATIONS, generation
from forecache.models.layouts.tables import (
    buckets_of,
    children_per_bucket,
    most_entries,
    slot_tables_bytes,
    table_bytes,
)
from forecache.sim.errors import InputError

VERSIONS = [(g.engine, v) for g in GENERATIONS for v in g.versions]

keys = st.integers(1, 3_000_000)
lengths = st.integers(1, 300)
shares = st.sampled_from([0.0, 0.3, 1.0])
strings = st.builds(
    Strings,
    type=st.just("string"),
    keys=keys,
    key_bytes=lengths,
    value_bytes=st.integers(0, 5000),
    ttl=shares,
    integers=st.booleans(),
)
sets = st.builds(
    Sets,
    type=st.just("set"),
    keys=keys,
    key_bytes=lengths,
    members=st.integers(1, 3000),
    member_bytes=st.integers(1, 18),
    ttl=shares,
    integers=st.booleans(),
)
hashes = st.builds(
    Hashes,
    type=st.just("hash"),
    keys=keys,
    key_bytes=lengths,
    fields=st.integers(1, 3000),
    field_bytes=lengths,
    value_bytes=st.integers(0, 300),
    ttl=shares,
)
sorted_sets = st.builds(
    SortedSets,
    type=st.just("sorted_set"),
    keys=keys,
    key_bytes=lengths,
    members=st.integers(1, 3000),
    member_bytes=lengths,
    ttl=shares,
)
lists = st.builds(
    Lists,
    type=st.just("list"),
    keys=keys,
    key_bytes=lengths,
    elements=st.integers(1, 3000),
    element_bytes=st.integers(1, 12_000),
    ttl=shares,
)
streams = st.builds(
    Streams,
    type=st.just("stream"),
    keys=keys,
    key_bytes=lengths,
    entries=st.integers(1, 3000),
    field_bytes=lengths,
    value_bytes=st.integers(0, 6_000),
    ttl=shares,
)
populations = st.one_of(strings, sets, hashes, sorted_sets, lists, streams)
nodes = st.builds(
    lambda g, allocator, slots: NodeFootprint(g, allocator, slots if g.slots else None),
    st.sampled_from(GENERATIONS),
    st.sampled_from(get_args(Allocator)),
    st.sampled_from([None, 16384, 500]),
)


def used(node: NodeFootprint, data: Sequence[Population]) -> float:
    return weigh(node, data).used_bytes


def changed(population: Population, **change: Any) -> Any:
    return population.model_copy(update=change)


# --- allocators ---------------------------------------------------------------------------------


def test_size_classes() -> None:
    asked = [1, 8, 9, 17, 33, 40, 48, 65, 129, 161, 1025, 5000]
    assert [size_class(n) for n in asked] == [*(8, 8, 16, 24, 40, 40, 48, 80, 160, 192, 1280, 5120)]
    system = [size_class(n, "system_jemalloc") for n in asked]
    assert system == [8, 8, 16, 32, 48, 48, 48, 80, 160, 192, 1280, 5120]
    # A chunk of glibc's is a multiple of 16 bytes, 8 of which are its own.
    assert [size_class(n, "libc") for n in (1, 24, 25, 40, 41)] == [24, 24, 40, 40, 56]
    assert [size_class(n, "jemalloc_3") for n in (24, 73, 3584, 3585, 5 << 20)] == [
        *(32, 80, 3584, 4096, 8 << 20)
    ]


@given(st.integers(1, 1 << 24), st.sampled_from(get_args(Allocator)))
def test_a_size_class_holds_what_was_asked_for_and_is_one(size: int, allocator: Any) -> None:
    found = size_class(size, allocator)
    assert found >= size
    # A word for the size comes on top of whatever is asked for.
    assert size_class(found, allocator) == found + 8 * (allocator == "libc_with_sizes")
    assert size_class(size + 1, allocator) >= found


# --- tables -------------------------------------------------------------------------------------


@given(st.sampled_from(["dict", "dict_direct", "hashtable"]), st.integers(1, 10**9))
def test_tables_are_powers_of_two_and_just_large_enough(kind: Any, entries: int) -> None:
    buckets = buckets_of(kind, entries)
    assert buckets & (buckets - 1) == 0
    assert entries <= most_entries(kind, buckets)
    smallest = buckets == (1 if kind == "hashtable" else 4)
    assert smallest or entries > most_entries(kind, buckets // 2)


def test_full_buckets_have_children() -> None:
    # Expected children at a load, Poisson: 3.5 and 7 entries a bucket.
    assert children_per_bucket(3.5 * 2**20, 2**20) == pytest.approx(0.027, abs=0.001)
    assert children_per_bucket(7.0 * 2**20, 2**20) == pytest.approx(0.414, abs=0.001)
    # Few buckets: the loads of two add up.
    two = sum(
        share * ((max(0, m - 7) + 5) // 6 + (max(0, 10 - m - 7) + 5) // 6)
        for m, share in enumerate(_binomial(10))
    )
    assert 2 * children_per_bucket(10, 2) == pytest.approx(two)
    assert children_per_bucket(7, 1) == 0.0
    assert children_per_bucket(8, 1) == 1.0


def _binomial(n: int) -> list[float]:
    row = [1.0]
    for _ in range(n):
        row = [a / 2 + b / 2 for a, b in zip([0.0, *row], [*row, 0.0], strict=True)]
    return row


def test_tables_of_slots_are_as_large_as_their_own_keys_ask_for() -> None:
    # 385.7 keys a slot are between 256 and 512 with any spread.
    found = slot_tables_bytes("dict", 6_318_941, slots=16384, struct_bytes=72, allocator="jemalloc")
    assert found.settled == pytest.approx(16384 * (512 * 8 + 80))
    assert found.rehash == pytest.approx(16384 * 256 * 8)
    # One key a slot on average: 1/e of the slots have none, and no table.
    one = slot_tables_bytes("dict", 16384, slots=16384, struct_bytes=72, allocator="jemalloc")
    assert one.settled == pytest.approx(16384 * (1 - 0.36788) * (32 + 80), rel=0.01)


def test_both_arrays_exist_while_a_table_moves() -> None:
    assert table_bytes("dict", 1025, "jemalloc") == (2048 * 8, 1024 * 8, 1024 * 8)
    settled, rehash, _ = table_bytes("hashtable", 7 * 1024 + 1, "jemalloc")
    assert settled == pytest.approx(2048 * 64 * 1.027, rel=0.001)
    assert rehash == pytest.approx(1024 * 64 * 1.414, rel=0.001)
    assert table_bytes("dict", 0, "jemalloc") == (0, 0, 0)


# --- keys and published totals ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value_bytes", "totals"),
    [
        (8, (80, 96, 72, 48, 40)),
        (16, (88, 104, 80, 56, 48)),
        (32, (104, 120, 96, 80, 64)),
        (44, (112, 128, 104, 88, 80)),
        (64, (144, 160, 136, 120, 96)),
        (96, (176, 192, 168, 152, 128)),
        (100, (176, 192, 168, 152, 152)),
        (128, (224, 240, 216, 200, 200)),
        (512, (704, 720, 696, 680, 680)),
        (1024, (1344, 1360, 1336, 1320, 1320)),
    ],
)
def test_bytes_of_a_string_key_by_generation(value_bytes: int, totals: tuple[int, ...]) -> None:
    """Keys of 16 bytes: the layouts that Valkey's sources of each version describe."""
    one = Strings(type="string", keys=1, key_bytes=16, value_bytes=value_bytes)
    cases = [("7.2", None), ("7.2", 16384), ("8.0", None), ("8.1", None), ("9.1", None)]
    for (version, slots), total in zip(cases, totals, strict=True):
        node = NodeFootprint(generation("valkey", version), "jemalloc", slots)
        assert key_weight(node, one).blocks.total == total


@pytest.mark.parametrize(
    ("version", "observed_bytes"),
    [("7.2", 727_339_288), ("8.0-dict-per-slot", 627_851_888), ("8.0", 577_300_952)],
)
def test_published_totals_of_the_open_engine_within_a_hundredth(
    version: str, observed_bytes: int
) -> None:
    data = [Strings(type="string", keys=6_318_941, key_bytes=16, value_bytes=16)]
    found = used_memory_bytes("valkey", data, engine_version=version, slots=16384)
    assert found == pytest.approx(observed_bytes, rel=0.01)


def test_large_sets_of_redis_2_8() -> None:
    """64-byte members: string 80, object 16, entry 32, and 2^24 buckets of 8 for ten million."""
    data = Sets(type="set", keys=1, members=10_000_000, member_bytes=64)
    content = key_weight(NodeFootprint(generation("redis", "2.8"), "jemalloc_3"), data).content
    each = (content.items + content.table) / data.members
    assert each == pytest.approx(80 + 16 + 32 + 2**24 * 8 / 1e7, rel=1e-4)


def test_a_time_to_live_has_an_entry_and_a_table_or_a_place_in_the_object() -> None:
    data = Strings(type="string", keys=1, key_bytes=16, value_bytes=1024)
    for version, more in (("7.2", 24), ("8.0", 24), ("8.1", 8), ("9.1", 8)):
        node = NodeFootprint(generation("valkey", version), "jemalloc")
        without, having = (key_weight(node, changed(data, ttl=ttl)).blocks for ttl in (0.0, 1.0))
        assert having.total - without.total == more, version


# --- thresholds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "packed", "not_packed"),
    [
        ("7.2", Hashes(type="hash", keys=1, fields=512), {"fields": 513}),
        ("7.2", Hashes(type="hash", keys=1, fields=9, value_bytes=64), {"value_bytes": 65}),
        ("8.0", SortedSets(type="sorted_set", keys=1, members=128), {"members": 129}),
        ("8.0", Sets(type="set", keys=1, members=128), {"members": 129}),
        ("8.0", Sets(type="set", keys=1, members=512, integers=True), {"members": 513}),
    ],
)
def test_small_collections_are_packed(
    version: str, packed: Population, not_packed: dict[str, int]
) -> None:
    node = NodeFootprint(generation("valkey", version), "jemalloc")
    small = key_weight(node, packed).content
    large = key_weight(node, changed(packed, **not_packed)).content
    assert small.table == 0.0
    assert large.table > 0.0
    assert large.items > 1.2 * small.items


def test_sets_of_strings_are_packed_from_7_2_on_only() -> None:
    data = Sets(type="set", keys=1, members=20)
    tables = {
        version: key_weight(
            NodeFootprint(generation("redis", version), "jemalloc"), data
        ).content.table
        for version in ("6.2", "7.0", "7.2")
    }
    assert tables == {"6.2": 256.0, "7.0": 256.0, "7.2": 0.0}


def test_lists_fill_nodes_of_8_kib() -> None:
    data = Lists(type="list", keys=1, elements=2000, element_bytes=100)
    content = key_weight(NodeFootprint(generation("valkey", "8.0"), "jemalloc"), data).content
    # An element takes 103 bytes; 79 make a node of 8,144, which is a block of 8,192.
    nodes, rest = divmod(2000, 79)
    last = size_class(7 + rest * 103)
    assert content.items == 40 + nodes * (40 + 8192) + 40 + last


# --- laws ---------------------------------------------------------------------------------------


@given(nodes, populations, st.integers(1, 100_000))
def test_more_keys_never_weigh_less(node: NodeFootprint, population: Population, more: int) -> None:
    larger = changed(population, keys=population.keys + more)
    assert used(node, [larger]) > used(node, [population])
    assert weigh(node, [larger]).rehashing_bytes > weigh(node, [population]).rehashing_bytes - 1


@given(nodes, populations, populations)
def test_populations_add_up(node: NodeFootprint, first: Population, second: Population) -> None:
    """Beside tables, which they share, and what a node holds anyway."""
    both, one, other = (weigh(node, data) for data in ([first, second], [first], [second]))
    without = weigh(node, []).used_bytes
    tables = [w.table.settled + w.expires_table.settled for w in (both, one, other)]
    parts = one.used_bytes + other.used_bytes - tables[1] - tables[2] - without
    assert both.used_bytes - tables[0] == pytest.approx(parts, rel=1e-12)
    split = [changed(first, keys=first.keys // 2), changed(first, keys=-(-first.keys // 2))]
    assert used(node, split) == pytest.approx(one.used_bytes, rel=1e-9)


@given(nodes, populations, shares, shares)
def test_a_time_to_live_never_makes_it_lighter(
    node: NodeFootprint, population: Population, one: float, other: float
) -> None:
    few, many = sorted((one, other))
    lighter = used(node, [changed(population, ttl=few)])
    assert used(node, [changed(population, ttl=many)]) >= lighter - 1e-6


@given(nodes, populations)
def test_states_are_in_order(node: NodeFootprint, population: Population) -> None:
    weight = weigh(node, [population])
    assert weight.least_bytes <= weight.used_bytes <= weight.most_bytes()
    assert weight.most_bytes() <= weight.most_bytes(stalled=True)
    assert weight.used_bytes <= weight.rehashing_bytes <= weight.most_bytes(stalled=True)
    assert 0.0 <= weight.untouched_bytes <= weight.used_bytes


@settings(max_examples=40)
@given(
    st.sampled_from(VERSIONS),
    st.lists(populations, min_size=1, max_size=3),
    st.booleans(),
    st.integers(5_000_000, 10**11),
    st.sampled_from(["maxmemory_bytes", "memory_bytes"]),
)
def test_what_fits_is_the_inverse_of_what_it_weighs(
    version: tuple[str, str], data: list[Population], cluster: bool, limit: int, field: str
) -> None:
    engine, number = version
    scenario = MemoryScenario(
        engine=engine,
        engine_version=number,
        cluster=cluster and generation(engine, number).slots is not None,
        data=data,
        **{field: limit},
    )
    mixture = Mixture(scenario)
    [limited] = limits_of(scenario)

    def needed(count: int) -> float:
        weight = mixture.weight(count)
        untouched = weight.untouched_bytes
        return mixture.room(weight.used_bytes, limited, untouched_bytes=untouched).needed_bytes

    try:
        fits = keys_that_fit(scenario)
    except InputError:
        assert needed(1) > limit
        return
    assert fits is not None
    assert needed(fits.keys) <= limit
    assert needed(fits.keys + 1) > limit
    assert fits.keys_while_rehashing <= fits.keys
    assert fits.keys_low <= fits.keys <= fits.keys_high
    assert fits.next_doubling.keys > fits.keys or scenario.cluster


def test_the_next_doubling_is_a_cliff() -> None:
    scenario = MemoryScenario(
        engine="redis",
        engine_version="7.0",
        maxmemory_bytes=10**9,
        data=[Strings(type="string", keys=1, value_bytes=100)],
    )
    fits = keys_that_fit(scenario)
    assert fits is not None
    at, mixture = fits.next_doubling.keys, Mixture(scenario)
    step = mixture.weight(at).used_bytes - mixture.weight(at - 1).used_bytes
    each = mixture.weight(at - 1).used_bytes - mixture.weight(at - 2).used_bytes
    assert step - each == pytest.approx(fits.next_doubling.adds_bytes)
    assert fits.next_doubling.adds_bytes == fits.next_doubling.while_moving_bytes == (at - 1) * 8


def test_without_a_limit_nothing_is_said_about_what_fits() -> None:
    data = [Strings(type="string", keys=1)]
    assert keys_that_fit(MemoryScenario(engine="valkey", data=data)) is None


def test_shards_share_data_and_slots() -> None:
    data = [Strings(type="string", keys=9_000_000, value_bytes=100)]
    scenario = MemoryScenario(engine="valkey", cluster=True, shards=3, data=data)
    node = node_of(scenario)
    assert node.slots == 5461
    third = weigh(node, [changed(data[0], keys=3_000_000)]).used_bytes
    assert weigh(node, data, shards=3).used_bytes == pytest.approx(third)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"engine": "redis", "engine_version": "6.2", "cluster": True}, "radix tree"),
        ({"engine": "memcached"}, "field 'engine': found 'memcached'"),
        ({"engine": "valkey", "engine_version": "8.7"}, "8.0, 8.1"),
        ({"engine": "valkey", "engine_version": "6.9"}, "7.2, 8.0-dict-per-slot, 8.0, 8.1"),
    ],
)
def test_what_is_not_known_is_refused(fields: dict[str, Any], part: str) -> None:
    scenario = MemoryScenario(data=[Strings(type="string", keys=1)], **fields)
    with pytest.raises(InputError, match=part):
        node_of(scenario)


def test_managed_engines_are_taken_for_the_open_ones() -> None:
    assert generation("elasticache-redis", "7.1") == generation("redis", "7.0")
    assert generation("elasticache-valkey", "8.0") == generation("valkey", "8.0.1")
    assert generation("valkey").versions == ("9.1",)
