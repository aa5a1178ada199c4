"""Where the lines of a workload are: sizes, commands, buffers and neighbours that compete."""

from dataclasses import replace
from typing import Any

import pytest

from forecache.hwprofiles import load_host
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import CommandKind, command_kinds
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.memory.contents import command_structures
from forecache.models.memory.lines import LINE_BYTES
from forecache.models.memory.waits import Waits
from forecache.models.node.setup import NodeTimes
from forecache.models.prediction.simulation import run, times_of
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.step_times.inputs import NodeInputs
from forecache.models.step_times.stages import node_times
from forecache.models.step_times.workload_caches import command_waits, workload_caches

SPEED = load_host("graviton3-c7g.4xlarge").speed()
ENGINE = load_engine("valkey-8.1")
GENERATOR = load_generator("memtier-benchmark").generator_work()


def scenario(io_threads: int = 1, **workload: Any) -> Scenario:
    data = {"host": "graviton3", "engine": "valkey", "io_threads": io_threads}
    [case] = expand({**data, "workload": workload}, file="test", schema=Scenario)
    return case.scenario


def times(
    case: Scenario, speed: HostSpeed = SPEED, work: dict[str, float] | None = None
) -> NodeTimes:
    return node_times(inputs_of(case, work, speed))


def inputs_of(case: Scenario, work: dict[str, float] | None, speed: HostSpeed) -> NodeInputs:
    return NodeInputs(case, ENGINE, ENGINE.engine_work(work), speed, GENERATOR, speed)


def where(
    case: Scenario,
    command: str,
    value_bytes: int,
    *,
    work: dict[str, float] | None = None,
    speed: HostSpeed = SPEED,
) -> Waits:
    """Where the lines are that one kind of command touches."""
    inputs = inputs_of(case, work, speed)
    kind = CommandKind(command, value_bytes, 1.0)
    return command_waits(kind, inputs, workload_caches(inputs))


def mean_wait_ns(case: Scenario, command: str, value_bytes: int, **other: Any) -> float:
    waits = where(case, command, value_bytes, **other)
    return waits.touching_ns() + waits.head_ns() + waits.tail_ns()


def test_values_of_all_sizes_compete_for_the_cache() -> None:
    def mixed(share_of_large: float) -> Scenario:
        weights = [1.0 - share_of_large, share_of_large]
        sizes = {"values": [64, 8192], "weights": weights}
        return scenario(command="get", keys=100_000, value_bytes=sizes)

    alone = mean_wait_ns(scenario(command="get", keys=100_000, value_bytes=64), "get", 64)
    few, many = (mean_wait_ns(mixed(share), "get", 64) for share in (0.01, 0.9))
    assert alone < few < many
    assert mean_wait_ns(mixed(0.01), "get", 8192) > few
    # Sizes that are all the same are one size.
    same = scenario(
        command="get", keys=100_000, value_bytes={"values": [64, 64], "weights": [1, 2]}
    )
    assert mean_wait_ns(same, "get", 64) == pytest.approx(alone, rel=1e-6)


def test_a_set_waits_for_the_value_it_replaces() -> None:
    case = scenario(keys=10**8)
    work = {"value_touches": 2.0, "touch_scale": 0.5}
    get, set_ = (where(case, command, 16, work=work) for command in ("get", "set"))
    added = set_.touching_ns() - get.touching_ns()
    assert added == pytest.approx(2.0 * float(get.line_ns[-1]), rel=1e-6)
    assert set_.head_ns() == pytest.approx(get.head_ns(), rel=1e-9)
    none = where(case, "set", 16, work={**work, "value_touches": 0.0})
    assert none.touching_ns() == pytest.approx(get.touching_ns(), rel=1e-9)
    # With I/O threads, the one that reads the client pays.
    threaded = where(scenario(4, keys=10**8), "set", 16, work=work)
    assert threaded.touching_ns() == pytest.approx(
        where(scenario(4, keys=10**8), "get", 16, work=work).touching_ns(), rel=1e-6
    )


def test_touch_scale_moves_dependent_touches_and_nothing_else() -> None:
    case = scenario(keys=10**8, value_bytes=4096)
    once, twice = (
        where(case, "set", 4096, work={"touch_scale": scale, "value_touches": 1.0})
        for scale in (1.0, 2.0)
    )
    plain_ns = once.touching_ns() - float(once.line_ns[-1])
    # Far beyond all caches, touching a line more often makes it no nearer.
    assert twice.touching_ns() - float(twice.line_ns[-1]) == pytest.approx(2 * plain_ns, rel=0.01)
    assert twice.head_ns() == pytest.approx(once.head_ns(), rel=0.01)


def test_a_set_writes_its_value_and_a_get_reads_it() -> None:
    case = scenario(keys=10**7, value_bytes=16_000)
    work = ENGINE.engine_work()
    kinds = {c: CommandKind(c, 16_000, 1.0) for c in ("get", "set")}
    for command, kind in kinds.items():
        lines = command_structures(kind, case, ENGINE, work)
        layout = [s for s in lines if s.name != "old value"]
        assert {s.written for s in layout} == {command == "set"}
        assert ("old value" in {s.name for s in lines}) == (command == "set")
        # What a lone thread looks up in groups ends at the entry.
        assert not next(s for s in lines if s.name == "value").prefetched
        assert next(s for s in lines if s.name == "bucket").prefetched
        threaded = command_structures(kind, scenario(4, value_bytes=16_000), ENGINE, work)
        assert all(s.prefetched for s in threaded)
    get, set_ = (where(case, c, 16_000, work={"value_touches": 0.0}) for c in ("get", "set"))
    assert get.touching_ns() == pytest.approx(set_.touching_ns(), rel=1e-9)
    assert get.tail_ns() > get.head_ns()
    assert set_.tail_ns() == 0.0


def test_stream_scale_moves_the_lines_that_follow() -> None:
    case = scenario(command="get", keys=10**7, value_bytes=1000)
    head_ns = where(case, "get", 1000).head_ns()
    one, two = (times(case, work={"stream_scale": scale}).stall_ps.mean() for scale in (1.0, 2.0))
    assert head_ns > 50.0
    assert two - one == pytest.approx(1000 * head_ns, rel=1e-3)


NEIGHBOURS = replace(SPEED, l3_fills_per_us=50.0)


def test_neighbours_matter_where_the_last_level_held_the_data() -> None:
    def stall_ns(keys: int, speed: HostSpeed, **workload: Any) -> float:
        case = scenario(command="get", keys=keys, value_bytes=64, **workload)
        return float(times(case, speed).stall_ps.mean()) / 1000.0

    for keys in (100, 100_000):
        assert stall_ns(keys, NEIGHBOURS) >= stall_ns(keys, SPEED)
    assert stall_ns(100_000, NEIGHBOURS) > 1.5 * stall_ns(100_000, SPEED)
    # What no cache holds cannot be evicted.
    far = stall_ns(10**9, SPEED)
    assert stall_ns(10**9, NEIGHBOURS) == pytest.approx(far, rel=0.05)
    stalls = [
        stall_ns(100_000, replace(SPEED, l3_fills_per_us=fills))
        for fills in (0.0, 1.0, 10.0, 100.0, 1000.0)
    ]
    assert stalls == sorted(stalls)


def test_neighbours_bring_more_between_requests_that_are_rare() -> None:
    def requests_kept(**workload: Any) -> float:
        case = scenario(command="get", keys=100_000, value_bytes=64, **workload)
        return workload_caches(inputs_of(case, None, NEIGHBOURS)).times.l3_requests

    slow = requests_kept(arrival="open_loop", rate_rps=1_000)
    slower = requests_kept(arrival="open_loop", rate_rps=500)
    assert slow < 0.2 * requests_kept()
    # Where ours are nothing beside theirs, a line stays for a time, not for a number of requests.
    assert slower == pytest.approx(slow / 2, rel=0.02)
    lines = NEIGHBOURS.l3_bytes / LINE_BYTES
    assert slow == pytest.approx(lines / 50.0 / 1000.0, rel=0.05)


def test_what_others_bring_meanwhile_and_the_request_interval_agree() -> None:
    """The fixed point: fills per request follow from the time a request takes with them."""
    case = scenario(command="get", keys=200_000, value_bytes=64)
    inputs = inputs_of(case, None, NEIGHBOURS)
    caches = workload_caches(inputs)
    waits = command_waits(CommandKind("get", 64, 1.0), inputs, caches)
    own = times(case, NEIGHBOURS)
    user_ns = (own.parse_by_code_ps[0] + own.execute_by_code_ps[0]) / 1000.0
    user_ns += (own.read_event_ps + own.write_event_ps) / 1000.0
    kernel_ns = (own.recv_ps + own.send_ps) / 1000.0
    kernel_ns += inputs.request_bytes * own.recv_ps_per_kib / 1024.0 / 1000.0
    kernel_ns += inputs.reply_bytes * own.send_ps_per_kib / 1024.0 / 1000.0
    later_ns = inputs.work.stream_scale * waits.head_ns() + waits.tail_ns()
    interval_ns = user_ns + kernel_ns + waits.touching_ns() + later_ns
    # Give the cache that many fills at once, from a rate that no wait feeds back on.
    rate_rps = 1e9 / interval_ns
    open_loop = scenario(
        command="get", keys=200_000, value_bytes=64, arrival="open_loop", rate_rps=rate_rps * 0.999
    )
    again = workload_caches(inputs_of(open_loop, None, NEIGHBOURS))
    assert again.times.l3_requests == pytest.approx(caches.times.l3_requests, rel=0.02)


def test_requests_and_replies_wait_where_their_buffers_are() -> None:
    def wait_ns(**workload: Any) -> float:
        case = scenario(keys=1000, **workload)
        return workload_caches(inputs_of(case, None, SPEED)).copy_wait_ns

    assert wait_ns(command="get", value_bytes=16) == pytest.approx(0.0, abs=1.0)
    # A pipeline's replies are put together in one place, which grows with the pipeline.
    large = [wait_ns(command="get", value_bytes=16_384, pipeline=p) for p in (1, 16, 128)]
    assert large == sorted(large)
    assert large[-1] > large[0] + 100.0
    # Requests that wait on all connections push each other out.
    many = [
        wait_ns(command="set", value_bytes=16_384, pipeline=16, clients=c) for c in (1, 50, 1000)
    ]
    assert many == sorted(many)
    assert many[-1] > many[0] + 100.0


def test_waits_for_buffers_are_charged_to_the_copies() -> None:
    case = scenario(command="get", keys=1000, value_bytes=16_384, pipeline=64)
    caches = workload_caches(inputs_of(case, None, SPEED))
    [kind] = command_kinds(case)
    size = kind.request_bytes(case.workload.key_bytes) + kind.reply_bytes
    assert caches.copied_bytes == pytest.approx(size)
    request = kind.request_bytes(case.workload.key_bytes)
    copying = request * SPEED.recv_ns_per_byte(64 * request)
    copying += kind.reply_bytes * SPEED.send_ns_per_byte(64 * kind.reply_bytes)
    each = times(case)
    found = request * each.recv_ps_per_kib + kind.reply_bytes * each.send_ps_per_kib
    assert found / 1000 / 1024 == pytest.approx(copying + caches.copy_wait_ns, rel=1e-4)


def test_others_evict_more_of_what_is_asked_for_seldom() -> None:
    """How often doesn't depend on whether a rate was offered or found to be served."""
    shared = replace(SPEED, l3_fills_per_us=2.0)
    closed = inputs_of(scenario(command="get", keys=50_000, value_bytes=64), None, shared)

    def wait_ns(inputs: NodeInputs) -> float:
        return float(node_times(inputs).stall_ps.mean()) / 1000.0

    waits = [wait_ns(replace(closed, served_rps=rate)) for rate in (2e6, 200e3, 20e3)]
    assert waits[2] > 2.0 * waits[1] > 2.0 * waits[0]
    opened = scenario(
        command="get", keys=50_000, value_bytes=64, arrival="open_loop", rate_rps=20e3
    )
    assert wait_ns(inputs_of(opened, None, shared)) == pytest.approx(waits[2], rel=1e-3)
    assert waits[0] == pytest.approx(wait_ns(closed), rel=1e-3)


def test_a_closed_loop_is_as_cold_as_an_open_one_that_serves_as_much() -> None:
    """Clients that think ask a tenth of what the server could serve."""
    shared = replace(SPEED, l3_fills_per_us=2.0)
    load = {"command": "get", "keys": 50_000, "value_bytes": 64, "clients": 40}
    thinking = inputs_of(scenario(**load, think_us=2000.0), None, shared)
    rate_rps = run(thinking, requests=20_000, seed=1).throughput_rps
    opened = inputs_of(scenario(**load, arrival="open_loop", rate_rps=rate_rps), None, shared)
    alone = replace(thinking, speed=SPEED)
    found, same, without = (times_of(i).stall_ps.mean() for i in (thinking, opened, alone))
    assert found == pytest.approx(same, rel=0.05)
    assert found > 2.0 * without
