"""Whether data fit: one rule, whoever asks."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.models.engines.profile import load_engine
from forecache.models.footprint.answers import memory
from forecache.models.footprint.limits import (
    FRAGMENTATION,
    PAGE_BYTES,
    SYSTEM_SHARE,
    Child,
    Room,
    host_limit,
    machine_limit,
    managed_limit,
    room,
)
from forecache.models.footprint.node import node_room
from forecache.models.layouts.slabs import bytes_of_keys, keys_that_fit
from forecache.models.over_time.cluster.nodes import MemoryWatch, NodeKind, Nodes
from forecache.models.prices.table import load_prices
from forecache.models.scenario.schema import Scenario

GIB = 2**30


def described(**changes: Any) -> dict[str, Any]:
    workload = {"keys": 1_000_000, "clients": 50, **changes.pop("workload", {})}
    return {"host": "r7g.large", "engine": "valkey", **changes, "workload": workload}


def room_of(data: dict[str, Any]) -> Room:
    scenario = Scenario.model_validate(data)
    engine = load_engine(scenario.engine, scenario.engine_version)
    return node_room(scenario, engine, load_host(data["host"]))


engines = st.sampled_from(
    [("redis", "7.0"), ("redis", "8.2"), ("valkey", "8.0"), ("valkey", "9.1"),
     ("elasticache-redis", "7.1")]
)  # fmt: skip


@settings(max_examples=40)
@given(
    engines,
    st.sampled_from(["r7g.large", "c7g.xlarge", "graviton3"]),
    st.integers(1, 10**9),
    st.integers(0, 10_000),
    st.integers(1, 5_000),
    st.booleans(),
)
def test_every_verb_needs_as_much(
    engine: tuple[str, str | None],
    host: str,
    keys: int,
    value_bytes: int,
    clients: int,
    snapshots: bool,
) -> None:
    """`memory` counts what warnings count, and fits where as many keys fit."""
    data = described(
        host=host,
        engine=engine[0],
        workload={"keys": keys, "value_bytes": value_bytes, "clients": clients},
    )
    if engine[1]:
        data["engine_version"] = engine[1]
    if snapshots:
        data["persistence"] = {"snapshot": {"every_s": 600, "child_s": 60}}
    found = room_of(data)
    [point] = memory(data).points
    assert point.room.needed_bytes == pytest.approx(found.needed_bytes)
    assert point.room.limit.usable_bytes == found.limit.usable_bytes
    assert point.room.fits is found.fits
    assert found.fits is (keys <= point.fits.keys)
    assert (found.shortfall is None) is found.fits


@given(st.integers(1, 10**8), st.integers(0, 5_000), st.integers(1, 10**7), st.integers(1, 2_000))
@settings(max_examples=30)
def test_more_or_larger_keys_never_need_less(
    keys: int, value_bytes: int, more: int, larger: int
) -> None:
    def needed(keys: int, value_bytes: int, engine: str) -> float:
        workload = {"keys": keys, "value_bytes": value_bytes}
        return room_of(described(engine=engine, workload=workload)).needed_bytes

    for engine in ("valkey", "memcached"):
        base = needed(keys, value_bytes, engine)
        assert needed(keys + more, value_bytes, engine) >= base
        assert needed(keys, value_bytes + larger, engine) >= base


def test_what_a_machine_leaves() -> None:
    limit = host_limit(load_host("r7g.large"), "valkey")
    assert limit.usable_bytes == pytest.approx((1 - SYSTEM_SHARE) * 16 * GIB)
    used = 10 * GIB
    found = room(limit, used, process_bytes=11.1e6)
    assert found.needed_bytes == pytest.approx(used * FRAGMENTATION + 11.1e6)


def test_a_managed_node_leaves_maxmemory_less_its_reserve() -> None:
    limit = host_limit(load_host("r7g.large"), "elasticache-redis")
    assert limit.usable_bytes == pytest.approx(0.75 * 14037181030)
    assert limit.of == "used"
    table = load_prices("elasticache-us-east-1")
    micro = table.node("cache.t3.micro").model_copy(update={"maxmemory_bytes": None})
    types = {**table.nodes.types, "cache.t3.micro": micro}
    unknown = table.model_copy(update={"nodes": table.nodes.model_copy(update={"types": types})})
    assert managed_limit(table, "cache.t3.micro") is not None
    assert managed_limit(unknown, "cache.t3.micro") is None
    # An instance that isn't sold as a node is a machine.
    assert host_limit(load_host("c7g.large"), "elasticache-redis").name == "memory"


def test_a_child_needs_the_pages_that_are_written() -> None:
    limit = machine_limit("a machine", 64 * GIB)

    def child(**given: float) -> Child:
        return Child(bytes_per_s=100e6, **given)

    def needed(forking: Child | None) -> float:
        return room(limit, 10 * GIB, process_bytes=0.0, forking=forking).needed_bytes

    alone = needed(None)
    tables = alone / PAGE_BYTES * 8
    assert needed(child(writes_per_s=0)) == pytest.approx(alone + tables)
    some = needed(child(writes_per_s=1_000, child_s=60))
    assert alone < some < needed(child(writes_per_s=10_000, child_s=60))
    # A closed loop writes as fast as it can: every page.
    assert needed(child()) == pytest.approx(2 * alone + tables)


def test_a_closed_loop_that_only_reads_copies_nothing() -> None:
    snapshot = {"persistence": {"snapshot": {"every_s": 600, "child_s": 60}}}
    reads = room_of(described(**snapshot, workload={"mix": {"get": 1}}))
    writes = room_of(described(**snapshot, workload={"mix": {"get": 0.9, "set": 0.1}}))
    assert writes.needed_bytes > 1.9 * reads.needed_bytes


def test_memcached_keeps_whole_pages() -> None:
    sizes = [(500, 0.5), (1000, 0.5)]
    needed = bytes_of_keys(1_000_000, key_bytes=16, sizes=sizes)
    assert keys_that_fit(needed + 2**20, key_bytes=16, sizes=sizes) == pytest.approx(1e6, rel=0.01)
    # Two chunks of half a page each.
    assert bytes_of_keys(10, key_bytes=16, sizes=[(700_000, 1.0)]) == 10 * 2**20


def test_a_cluster_tells_when_its_data_no_longer_fit() -> None:
    limit = machine_limit("r7g.large", 16 * GIB)
    kind = NodeKind("node", None, None, 1, 1, server_bytes=1e6, limit=limit)  # type: ignore[arg-type]
    nodes = Nodes(kind, timeout_steps=1, connect_timeout_steps=1)
    for shard in range(2):
        nodes.add(shard=shard)
    watch = MemoryWatch(nodes, connection_bytes=2_000.0)
    nodes.data_bytes[:] = 10 * GIB
    assert watch.look(1.0) == 10 * GIB + 1e6
    assert watch.shortfalls == []
    # A resize takes a node away.
    nodes.data_bytes[1] = 20 * GIB
    nodes.connect(1, 100)
    assert watch.look(2.0) == 20 * GIB + 1e6 + 100 * 2_000.0
    nodes.data_bytes[1] = 10 * GIB
    watch.look(3.0)
    assert watch.short_since_s == 2.0
    [told] = watch.shortfalls
    assert "needs 21 GiB (20 GiB of used memory)" in told
