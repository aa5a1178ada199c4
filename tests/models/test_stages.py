"""Work times speed: bytes on the wire, shares of commands, and what scales with what."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import (
    LONG_BYTES,
    WHOLE_ARGUMENT_BYTES,
    CommandKind,
    command_kinds,
)
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.memory.contents import prefetch_batch
from forecache.models.node.setup import DRAWS, JITTER_ONE, NodeTimes
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.step_times.command_times import copied_value_bytes
from forecache.models.step_times.cores import late_wake_ups, wake_latencies_ns
from forecache.models.step_times.inputs import NodeInputs, user_rate
from forecache.models.step_times.stages import code_table, jitter_table, node_times
from forecache.models.step_times.wire import (
    RECEIVED_AT_ONCE_BYTES,
    TCP_SEGMENT_BYTES,
    read_limit_bytes,
    segment_bytes,
    write_limit_bytes,
)

SPEED = load_host("graviton3-c7g.4xlarge").speed()
ENGINE = load_engine("valkey-8.1")
GENERATOR = load_generator("memtier-benchmark").generator_work()


def scenario(io_threads: int = 1, **workload: Any) -> Scenario:
    data = {"host": "graviton3", "engine": "valkey", "io_threads": io_threads}
    [case] = expand({**data, "workload": workload}, file="test", schema=Scenario)
    return case.scenario


def times(
    case: Scenario, speed: HostSpeed = SPEED, work: dict[str, float] | None = None, **other: Any
) -> NodeTimes:
    engine = other.get("engine", ENGINE)
    far = other.get("generator_speed", speed)
    return node_times(NodeInputs(case, engine, engine.engine_work(work), speed, GENERATOR, far))


def test_bytes_on_the_wire() -> None:
    get, set_ = CommandKind("get", 5, 1.0), CommandKind("set", 5, 1.0)
    assert get.request_bytes(4) == len(b"*2\r\n$3\r\nGET\r\n$4\r\nkey1\r\n")
    assert get.reply_bytes == len(b"$5\r\nhello\r\n")
    assert set_.request_bytes(4) == len(b"*3\r\n$3\r\nSET\r\n$4\r\nkey1\r\n$5\r\nhello\r\n")
    assert set_.reply_bytes == len(b"+OK\r\n")
    empty = CommandKind("get", 0, 1.0)
    assert empty.reply_bytes == len(b"$0\r\n\r\n")
    long = CommandKind("set", 1234, 1.0)
    assert long.request_bytes(16) == len(
        b"*3\r\n$3\r\nSET\r\n$16\r\n" + b"k" * 16 + b"\r\n$1234\r\n" + b"v" * 1234 + b"\r\n"
    )


def test_a_mean_key_has_the_mean_request() -> None:
    # Nine of ten decimal numbers below ten million have seven digits, one has six.
    get = CommandKind("get", 5, 1.0)
    mean = 0.9 * get.request_bytes(7) + 0.1 * get.request_bytes(6)
    assert get.request_bytes(6.9) == pytest.approx(mean)


def test_kinds_are_commands_times_sizes() -> None:
    case = scenario(
        mix={"get": 0.9, "set": 0.1}, value_bytes={"values": [10, 100], "weights": [3, 1]}
    )
    found = {(kind.command, kind.value_bytes): kind.share for kind in command_kinds(case)}
    assert found == pytest.approx(
        {("get", 10): 0.675, ("get", 100): 0.225, ("set", 10): 0.075, ("set", 100): 0.025}
    )
    assert [kind.command for kind in command_kinds(scenario(command="set"))] == ["set"]


@given(st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=64))
def test_the_command_table_keeps_the_shares(weights: list[float]) -> None:
    total = sum(weights)
    kinds = [CommandKind("get", size, weight / total) for size, weight in enumerate(weights)]
    slots = np.bincount(code_table(kinds), minlength=len(kinds))
    assert slots.sum() == DRAWS
    assert len(slots) == len(kinds)
    assert np.abs(slots / DRAWS - [kind.share for kind in kinds]).max() <= 1.0 / DRAWS


@pytest.mark.parametrize("variation", [0.0, 0.12, 0.3])
def test_jitter_keeps_the_mean_and_has_its_spread(variation: float) -> None:
    factor = jitter_table(variation) / JITTER_ONE
    assert factor.mean() == pytest.approx(1.0, abs=1e-4)
    assert factor.std() == pytest.approx(variation, rel=0.05)
    assert (np.diff(factor) >= 0).all()


_USER = ("loop_ps", "write_event_ps", "scan_ps", "collect_ps", "generator_request_ps")
_KERNEL = (
    *("poll_ps", "recv_ps", "send_ps", "recv_ps_per_kib", "send_ps_per_kib"),
    *("block_ps", "doze_ps"),
)


@pytest.mark.parametrize("field", ["clock_ghz", "user_ipc"])
def test_user_time_goes_with_clock_and_ipc_and_kernel_time_does_not(field: str) -> None:
    case = scenario(keys=1000, command="get", value_bytes=64)
    slow = times(case)
    fast = times(case, replace(SPEED, **{field: 2 * getattr(SPEED, field)}))
    for name in _USER:
        assert getattr(fast, name) == pytest.approx(getattr(slow, name) / 2, abs=1), name
    assert fast.parse_by_code_ps == pytest.approx(slow.parse_by_code_ps / 2, abs=1)
    assert fast.execute_by_code_ps == pytest.approx(slow.execute_by_code_ps / 2, abs=1)
    for name in _KERNEL:
        assert getattr(fast, name) == getattr(slow, name), name


def test_kernel_time_is_the_hosts_times_the_engines_scale() -> None:
    found = times(scenario(), work={"kernel_scale": 1.5, "wake_scale": 0.5})
    assert found.recv_ps == round(1500 * SPEED.tcp_recv_ns)
    assert found.send_ps == round(1500 * SPEED.tcp_send_ns)
    assert found.poll_ps == round(1500 * SPEED.epoll_wait_ns)
    assert found.wake_send_ps == round(500 * SPEED.wake_send_ns)
    assert found.doze_ps + found.block_ps == pytest.approx(500 * SPEED.whole_block_ns, abs=1)


def test_a_tool_that_leaves_memory_to_rcu_keeps_the_tick_of_its_own_host() -> None:
    host = load_host("graviton3-c7g.4xlarge")

    def sleep_ps(tool: str, *, same_host: bool) -> tuple[int, int]:
        """CPU time and length of the server's."""
        data = {"host": "graviton3", "engine": "valkey", "workload": {}}
        load = {"load_generator": {"tool": tool, "same_host": same_host}}
        [case] = expand({**data, **load}, file="test", schema=Scenario)
        inputs = System(host, ENGINE, load_generator(tool)).inputs(case.scenario)
        assert (inputs.generator_speed == inputs.speed) == (same_host or tool == "forecache")
        found = node_times(inputs)
        return found.doze_ps + found.block_ps, found.wake_latency_ps[-1]

    whole = sleep_ps("forecache", same_host=True)
    ticking = sleep_ps("valkey-benchmark", same_host=True)
    assert sleep_ps("valkey-benchmark", same_host=False) == whole
    assert whole[0] == pytest.approx(SPEED.tickless_block_scale * ticking[0], abs=2)
    assert ticking[1] < whole[1]


def test_a_core_that_polls_while_it_idles_keeps_its_tick() -> None:
    host = load_host("graviton3-c7g.4xlarge")
    data = {"host": "graviton3", "engine": "valkey", "workload": {}, "idle_polls": True}
    [case] = expand(data, file="test", schema=Scenario)
    speed = System(host, ENGINE, load_generator("forecache")).inputs(case.scenario).speed
    assert speed.whole_block_ns == speed.block_ns


def test_wake_ups_spread_as_the_host_says() -> None:
    one = replace(SPEED.ticking(), wake_latency_ns=20_000.0, wake_spread=((0.5, 1.0),))
    assert len(set(times(scenario(), one).wake_latency_ps)) == 1
    spread = ((0.0, 0.8), (0.5, 1.0), (1.0, 3.0))
    wakes_ps = times(scenario(), replace(one, wake_spread=spread)).wake_latency_ps
    assert (np.diff(wakes_ps) > 0).all()
    # What a send and the way back are simulated with comes off all of them.
    assert wakes_ps[-1] - wakes_ps[0] == pytest.approx(2.2 * 20_000_000, rel=0.02)


def test_late_wake_ups_are_pauses_and_not_simulated() -> None:
    spread = ((0.0, 1.0), (0.99, 1.0), (0.995, 10.0), (1.0, 1000.0))
    speed = replace(SPEED.ticking(), wake_latency_ns=20_000.0, wake_spread=spread)
    latencies_ns = wake_latencies_ns(speed)
    assert latencies_ns[0] == pytest.approx(20_000.0)
    # From 0.2 ms to 20 ms in half a per cent of wake-ups: a millisecond is a third of the way.
    assert late_wake_ups(speed, 1000.0) == pytest.approx(0.005 * (1 - np.log10(5.0) / 2), rel=1e-6)
    assert 200_000.0 < latencies_ns[-1] < 1_000_000.0
    assert late_wake_ups(speed, 30_000.0) == 0.0


def test_bytes_take_what_messages_of_their_size_take() -> None:
    """Requests are received and replies sent a pipeline at a time, at the server and its tool."""
    curves = {"recv_curve": ((100.0, 0.02), (10_000.0, 0.05))}
    curves["send_curve"] = ((100.0, 0.1), (10_000.0, 0.2))
    speed = replace(SPEED, **curves)
    few = times(scenario(keys=1000, command="get", value_bytes=16), speed)
    many = times(scenario(keys=1000, command="get", value_bytes=16, pipeline=1000), speed)
    for name in ("recv_ps_per_kib", "send_ps_per_kib"):
        for who in ("", "generator_"):
            assert getattr(few, who + name) < getattr(many, who + name)
    assert few.send_ps_per_kib == pytest.approx(0.1 * 1024 * 1000, rel=0.01)
    assert many.send_ps_per_kib >= 0.2 * 1024 * 1000


def test_a_unix_socket_takes_its_own_calls() -> None:
    case = scenario().model_copy(update={"transport": "unix_socket"})
    found = times(case, work={"kernel_scale": 1.0})
    assert found.recv_ps == round(1000 * SPEED.unix_recv_ns)
    assert found.send_ps == round(1000 * SPEED.unix_send_ns)


def test_the_network_sends_what_its_bandwidth_allows() -> None:
    found = times(scenario(), replace(SPEED, network_gbit_per_s=8.0, network_one_way_us=25.0))
    assert found.wire_ps_per_kib == 1024 * 1000, "8 Gbit/s are a byte a nanosecond"
    assert found.one_way_ps == 25_000_000
    assert found.flow_ps_per_kib == round(1024 * 8 / 5 * 1000), "5 Gbit/s of AWS"
    unknown = replace(SPEED, network_flow_gbit_per_s=math.inf, network_packets_per_s=2e6)
    found = times(scenario(), unknown)
    assert found.flow_ps_per_kib == 0
    assert found.packet_ps == 500_000


def test_the_generator_runs_at_its_own_hosts_speed() -> None:
    far = replace(SPEED, clock_ghz=SPEED.clock_ghz * 2, tcp_send_ns=SPEED.tcp_send_ns * 3)
    here, there = times(scenario()), times(scenario(), generator_speed=far)
    assert there.generator_request_ps == pytest.approx(here.generator_request_ps / 2, abs=1)
    assert there.generator_send_ps > 2 * here.generator_send_ps
    assert there.loop_ps == here.loop_ps
    assert there.send_ps == here.send_ps


def test_execution_grows_with_the_value_by_its_instructions() -> None:
    rate = SPEED.clock_ghz * SPEED.user_ipc
    work = {"get_instructions": 900.0, "get_instructions_per_byte": 0.5}
    small, large = (
        times(scenario(command="get", value_bytes=size), work=work) for size in (0, 1000)
    )
    assert small.execute_by_code_ps[0] == round(900 / rate * 1000)
    grown = large.execute_by_code_ps[0] - small.execute_by_code_ps[0]
    assert grown == pytest.approx(500 / rate * 1000, abs=1)


def test_handing_over_costs_core_to_core_transfers() -> None:
    case = scenario(4)
    near, far = times(case), times(case, replace(SPEED, core_to_core_ns=SPEED.core_to_core_ns * 2))
    work = ENGINE.engine_work()
    added = far.push_ps - near.push_ps
    assert added == pytest.approx(work.execute_lines / 2 * SPEED.core_to_core_ns * 1000, abs=2)
    assert far.pop_ps > near.pop_ps
    assert far.handover_ps == 2 * near.handover_ps
    assert far.recv_ps == near.recv_ps


def test_io_threads_wait_for_the_line_they_write_in_turn() -> None:
    """Beyond what each job costs by itself: nothing alone, then more with every further thread."""
    work = {"shared_lines": 4.0}

    def waiting_ps(threads: int) -> int:
        case = scenario(threads, command="get")
        return times(case, work=work).pop_ps - times(case, work={"shared_lines": 0.0}).pop_ps

    waits = [waiting_ps(threads) for threads in (2, 3, 4, 6, 9)]
    assert waits[0] == 0
    assert waits == sorted(waits)
    line_ps = SPEED.core_to_core_ns * 1000
    # A read and a write job have two accesses each; a half of them move the line of two threads.
    assert 2 * line_ps / 2 < waits[1] < 1.1 * 2 * line_ps / 2


@pytest.mark.parametrize(
    ("engine", "given_batch", "expected"),
    [("valkey-8.1", None, 16), ("valkey-8.1", 4, 4), ("valkey-8.1", 0, 1), ("redis-7.0", None, 1),
     ("redis-7.0", 16, 1)],
)  # fmt: skip
def test_keys_of_a_batch(engine: str, given_batch: int | None, expected: int) -> None:
    case = scenario().model_copy(update={"prefetch_batch": given_batch})
    assert prefetch_batch(case, load_engine(engine)) == expected
    assert len(times(case, engine=load_engine(engine)).prefetch_by_keys_ps) == expected + 1


def test_a_batch_adds_its_own_instructions_per_key() -> None:
    case = scenario(4, keys=100)
    rate = SPEED.clock_ghz * SPEED.user_ipc
    found = times(case, work={"prefetch_instructions_per_key": 100.0}).prefetch_by_keys_ps
    assert found[:2].tolist() == [0, 0]
    assert found[16] == pytest.approx(1600 / rate * 1000, abs=2)


def test_a_long_value_is_read_whole_and_stored_without_a_copy() -> None:
    """Only the first bytes of a value take instructions each, of one of 32 KiB or more none."""

    def by_byte_ps(value_bytes: int) -> float:
        work = {"parse_instructions_per_byte": 1.0, "set_instructions_per_byte": 1.0}
        case = scenario(command="set", value_bytes=value_bytes)
        found = [times(case, work=each) for each in (work, dict.fromkeys(work, 0.0))]
        sums = [t.parse_by_code_ps[0] + t.execute_by_code_ps[0] for t in found]
        return float(sums[0] - sums[1])

    per_byte_ps = 2000.0 / user_rate(SPEED)
    assert by_byte_ps(4_000) == pytest.approx(4_000 * per_byte_ps, rel=0.01)
    assert by_byte_ps(WHOLE_ARGUMENT_BYTES - 1) == pytest.approx(LONG_BYTES * per_byte_ps, rel=0.01)
    assert by_byte_ps(WHOLE_ARGUMENT_BYTES) == 0.0

    for size in (70_000, 100_000, 1_000_000):
        assert write_limit_bytes(scenario(command="get", value_bytes=size), ENGINE) > size + 20
    small = scenario(command="get", value_bytes=10_000)
    assert write_limit_bytes(small, ENGINE) == ENGINE.write_limit_bytes


@pytest.mark.parametrize(
    ("engine", "io_threads", "value_bytes", "copied"),
    [
        ("valkey-9.1", 1, 16_383, 16_383),
        ("valkey-9.1", 1, 16_384, 0),
        ("valkey-9.1", 4, 16_384, 16_384),
        ("valkey-8.1", 1, 100_000, 100_000),
    ],
)
def test_a_lone_thread_sends_large_values_from_where_they_lie(
    engine: str, io_threads: int, value_bytes: int, copied: int
) -> None:
    profile = load_engine(engine)
    case = scenario(io_threads, command="get", value_bytes=value_bytes)
    assert copied_value_bytes(CommandKind("get", value_bytes, 1.0), case, profile) == copied
    plain, per_byte = (
        times(case, engine=profile, work={"get_instructions_per_byte": each}).execute_by_code_ps[0]
        for each in (0.0, 1.0)
    )
    rate = user_rate(SPEED)
    # Of the rest of a long value no instruction is waited for.
    assert per_byte - plain == pytest.approx(min(copied, LONG_BYTES) / rate * 1000, abs=2)


def test_a_segment_is_what_the_transport_carries() -> None:
    case = scenario()
    assert segment_bytes(case, ENGINE) == TCP_SEGMENT_BYTES == 65_483
    unix = case.model_copy(update={"transport": "unix_socket"})
    assert segment_bytes(unix, ENGINE) == ENGINE.write_limit_bytes


@pytest.mark.parametrize(
    ("workload", "reads"),
    [
        ({"command": "get", "pipeline": 1}, 1),
        ({"command": "set", "value_bytes": 16, "pipeline": 128}, 1),
        # 16 x 4,149 bytes at 20,475 a read.
        ({"command": "set", "value_bytes": 4096, "pipeline": 16}, 4),
        # 16 x 8,245 bytes: one small read, then 40,950 each.
        ({"command": "set", "value_bytes": 8192, "pipeline": 16}, 4),
        # A value that is stored as it is read: all that the socket holds, 200 KB.
        ({"command": "set", "value_bytes": 1_000_000, "pipeline": 1}, 6),
    ],
)
def test_a_pipelines_bytes_take_so_many_reads(workload: dict[str, Any], reads: int) -> None:
    case = scenario(**workload)
    limit = read_limit_bytes(case, ENGINE)
    sizes = [
        kind.request_bytes(case.workload.key_bytes) * kind.share for kind in command_kinds(case)
    ]
    total = case.workload.pipeline * sum(sizes)
    assert -(-total // limit) == reads
    assert limit >= ENGINE.read_limit_bytes
    assert limit <= RECEIVED_AT_ONCE_BYTES


@given(
    threads=st.integers(1, 16),
    keys=st.integers(1, 10**10),
    key_bytes=st.integers(1, 1000),
    size=st.integers(0, 10**6),
    pipeline=st.integers(1, 64),
)
def test_no_step_takes_negative_time(
    threads: int, keys: int, key_bytes: int, size: int, pipeline: int
) -> None:
    found = times(
        scenario(threads, keys=keys, key_bytes=key_bytes, value_bytes=size, pipeline=pipeline)
    )
    for name, value in found._asdict().items():
        # Where no key has a lock of its own there is -1 in its place.
        assert np.all(np.asarray(value) >= (-1 if name == "lock_by_draw" else 0)), name
    assert found.loop_ps > 0


def test_whoever_parses_a_command_finds_it_in_the_table() -> None:
    small = {"keys": 1000, "command": "get", "value_bytes": 64}
    moved = {"command_lookup_instructions": 500.0}
    kept = {"command_lookup_instructions": 0.0}
    alone = [times(scenario(1, **small), work=work) for work in (kept, moved)]
    assert alone[0].parse_by_code_ps == alone[1].parse_by_code_ps
    assert alone[0].execute_by_code_ps == alone[1].execute_by_code_ps
    before, after = (times(scenario(4, **small), work=work) for work in (kept, moved))
    spent_ps = round(500 * 1000 / user_rate(SPEED))
    assert after.parse_by_code_ps - before.parse_by_code_ps == pytest.approx(spent_ps, abs=1)
    assert before.execute_by_code_ps - after.execute_by_code_ps == pytest.approx(spent_ps, abs=1)


def test_the_main_thread_does_not_write_a_value_that_an_io_thread_has_made() -> None:
    large = {"keys": 10_000_000, "value_bytes": 4096, "mix": {"get": 0.5, "set": 0.5}}
    get, made = times(scenario(4, **large)).prefetched_stall_by_code_ps
    assert made < get / 2
    alone = times(scenario(1, **large)).stall_ps.mean(axis=1)
    assert alone[1] > get / 2


def test_a_lower_clock_lengthens_what_the_cores_do_and_nothing_beyond_them() -> None:
    slow = SPEED.at_clock(SPEED.clock_ghz / 2, of_ghz=SPEED.clock_ghz)
    assert user_rate(slow) == pytest.approx(user_rate(SPEED) / 2)
    for name in ("tcp_send_ns", "syscall_ns", "block_ns", "l2_ns", "copy_ns_per_byte"):
        assert getattr(slow, name) == pytest.approx(2 * getattr(SPEED, name))
    for name in ("l3_ns", "dram_ns", "core_to_core_ns", "network_one_way_us", "time_slice_us"):
        assert getattr(slow, name) == getattr(SPEED, name)


def test_a_busy_hyperthread_takes_its_share_of_the_core() -> None:
    alone = load_host("sapphire-rapids").speed()
    shared = alone.with_busy_siblings()
    assert alone.busy_sibling_speed < 1
    assert user_rate(shared) == pytest.approx(user_rate(alone) * alone.busy_sibling_speed)
    assert shared.tcp_send_ns == pytest.approx(alone.tcp_send_ns / alone.busy_sibling_speed)
    assert (shared.clock_ghz, shared.dram_ns) == (alone.clock_ghz, alone.dram_ns)
    assert SPEED.with_busy_siblings() == SPEED
