"""Capture: the loops measure what they say, and a profile comes out whatever the host allows."""

import dataclasses
import itertools
import math
import os
import select
import shutil
import ssl
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.hwprofiles.capture import (
    capture_host,
    collect,
    cores,
    encryption,
    host,
    memory,
    sockets,
)
from forecache.hwprofiles.capture.host import with_days
from forecache.hwprofiles.capture.loops import CLOCK_MONOTONIC
from forecache.hwprofiles.capture.machine import CacheFacts, inspect_machine
from forecache.hwprofiles.capture.summary import extra, measured, spread
from forecache.hwprofiles.files import parse
from forecache.hwprofiles.parts import Captured
from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import READ_BYTES
from forecache.sim.errors import InputError

MACHINE = inspect_machine()
pytestmark = pytest.mark.alone

needs_two_cores = pytest.mark.skipif(
    MACHINE.pair is None or MACHINE.usable_cpus < 2, reason="needs two cores"
)


def pin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})


@pytest.fixture
def small_buffer() -> Iterator[memory.Buffer]:
    buffer = memory.Buffer(4 * 2**20, huge=False)
    yield buffer
    buffer.close()


@given(st.integers(1, 3000), st.integers(0, 2**63 - 1))
def test_a_linked_set_is_one_cycle_through_all_lines(lines: int, seed: int) -> None:
    words = np.zeros(lines * 8, dtype=np.uint64)
    memory.link_random_cycle(words, lines, seed)
    seen = set()
    position = 0
    for _ in range(lines):
        seen.add(position)
        position = int(words[position])
    assert position == 0
    assert seen == set(range(0, lines * 8, 8))


@given(st.integers(1, 6), st.integers(0, 500))
def test_a_chase_ends_where_the_chain_leads(chains: int, steps: int) -> None:
    words = np.zeros(64 * 8, dtype=np.uint64)
    memory.link_random_cycle(words, 64, 7)
    starts = [8 * chain for chain in range(chains)]
    cursors = np.array(starts, dtype=np.uint64)
    elapsed = memory.chase_ns(words, cursors, steps)
    for start, end in zip(starts, cursors, strict=True):
        position = start
        for _ in range(steps):
            position = int(words[position])
        assert int(end) == position
    assert elapsed >= 0


def test_working_sets_are_two_an_octave_and_whole_lines() -> None:
    sizes = memory.working_sets(65536, 4096)
    assert len(sizes) == 9
    assert (sizes[0], sizes[-1]) == (4096, 65536)
    assert all(size % 64 == 0 for size in sizes)


def test_memory_farther_away_is_slower_and_chains_overlap(small_buffer: memory.Buffer) -> None:
    samples = memory.latency_samples(small_buffer, [4096, 4 * 2**20], repetitions=6)
    near, far = min(samples[4096]), min(samples[4 * 2**20])
    assert 0.3 < near < 20.0
    assert far > 1.5 * near
    single = min(memory.parallel_samples(small_buffer, 4 * 2**20, 1, repetitions=3))
    eight = min(memory.parallel_samples(small_buffer, 4 * 2**20, 8, repetitions=3))
    assert eight < 0.7 * single


def test_a_region_is_walked_over_all_its_pages(small_buffer: memory.Buffer) -> None:
    pages = 4 * 2**20 // 4096
    samples = memory.region_samples(small_buffer, 4 * 2**20, lines=3 * pages, repetitions=3)
    assert len(samples) == 3
    assert all(0.3 < sample < 2000.0 for sample in samples)
    # One cycle, with lines on every page and no more of them than asked for.
    words = small_buffer.words
    start = position = int(np.flatnonzero(words)[0])
    seen = set()
    while position not in seen:
        seen.add(position)
        position = int(words[position])
    assert position == start
    assert {word * 8 // 4096 for word in seen} == set(range(pages))
    assert 2 * pages < len(seen) <= 3 * pages
    assert all(word % 8 == 0 for word in seen)


def test_lines_left_alone_are_timed_after_each_pause(small_buffer: memory.Buffer) -> None:
    started = time.monotonic()
    samples = memory.survival_samples(small_buffer, 2**18, (1.0, 20.0))
    assert time.monotonic() - started > 0.021
    assert list(samples) == [1.0, 20.0]
    assert all(0.3 < sample < 2000.0 for sample in samples.values())


def collected(survival_ns: dict[float, list[float]], region_ns: dict[int, list[float]]) -> Any:
    """What a capture has, as far as neighbours and walks go: 5 ns near, 105 ns far."""
    latency = {"small_pages": {4096: [5.0], 2**28: [155.0]}, "huge_pages": {2**28: [105.0]}}
    return collect.Collected(latency_ns=latency, survival_ns=survival_ns, region_ns=region_ns)


@pytest.mark.parametrize("fills_per_us", [3.0, 30.0, 200.0])
def test_neighbours_come_back_from_how_long_lines_survive(fills_per_us: float) -> None:
    lines = 2**19
    machine = dataclasses.replace(MACHINE, caches={3: CacheFacts(lines * 64, 64, 1)})
    pauses_ms = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 0.0001)
    survival = {
        pause: [105.0 - 100.0 * math.exp(-fills_per_us * 1000.0 * pause / lines)] * 2
        for pause in pauses_ms
    }
    leaf = host._fills(machine, collected(survival, {}))
    assert leaf.unit == "1/us"
    assert leaf.value == pytest.approx(fills_per_us, rel=0.02)
    assert leaf.low is not None
    assert leaf.high is not None
    assert leaf.low <= fills_per_us * 1.02
    assert leaf.high >= fills_per_us * 0.98


def test_page_walks_are_what_small_pages_cost_and_never_fall() -> None:
    regions = {2**27: [130.0, 125.0], 2**28: [120.0], 2**29: [165.0], 2**30: [90.0]}
    curve = host._walk_curve(collected({}, regions))
    assert curve is not None
    assert [size for size, _ in curve.points] == [2.0**n for n in (27, 28, 29, 30)]
    walks = [walk for _, walk in curve.points]
    assert walks == sorted(walks)
    # Less the 105 ns of a miss on huge pages.
    assert 20.0 <= walks[0] <= 25.0
    assert walks[1] == walks[0]
    assert walks[2:] == [60.0, 60.0]
    assert host._walk_curve(collected({}, {2**27: [130.0]})) is None, "one point is no curve"


def test_bandwidth_counts_every_byte(small_buffer: memory.Buffer) -> None:
    words = small_buffer.words[:-3]  # and what is left over of whole steps
    words[:] = 3
    readings = memory.read_repeatedly(words, 2)
    assert list(readings["sum"]) == [3 * len(words)] * 2
    assert (readings["end_ns"] > readings["start_ns"]).all()
    rates = memory.bandwidth_samples(small_buffer, [MACHINE.cpus[0]], pin, repetitions=3)
    assert len(rates) == 3
    assert all(0.5 < rate < 2000 for rate in rates)


def test_the_clock_is_one_a_server_may_have() -> None:
    low, middle, _ = spread(cores.clock_samples(repetitions=9, rounds=50_000))
    assert 0.5 < low <= middle < 7.0


def test_dependent_operations_take_time_in_proportion() -> None:
    def fastest(rounds: int) -> int:
        return min(cores.dependent_operations_ns(rounds, 3, 5) for _ in range(9))

    assert 3.0 < fastest(400_000) / fastest(100_000) < 5.0


def test_a_shared_cpu_is_seen_to_be_taken_away() -> None:
    """Two loops on one CPU: each misses the time the other has."""
    cpu = MACHINE.cpus[0]
    seconds = 0.4
    both = cores.interruption_samples((cpu, cpu), pin, duration_s=seconds)
    lost_s = sum(gaps_ns.sum() for gaps_ns in both) * 1e-9
    assert 0.7 * seconds < lost_s < 2 * seconds
    assert min(gaps_ns.min() for gaps_ns in both) >= cores.SHORTEST_GAP_NS


def test_no_more_gaps_are_noted_than_there_is_room_for() -> None:
    gaps_ns = np.full(4, -1, dtype=np.int64)
    # Every look is a gap of at least nothing.
    assert cores.watch_clock(10**9, 0, gaps_ns[:3]) == 3
    assert (gaps_ns[:3] >= 0).all()
    assert gaps_ns[3] == -1
    assert cores.watch_clock(10**6, 10**9, gaps_ns) in (0, 1)


def test_a_system_call_costs_more_than_a_function() -> None:
    assert 15.0 < min(cores.syscall_samples(repetitions=5)) < 20_000.0


def test_a_token_is_changed_by_one_side_at_a_time() -> None:
    """No update is lost, and neither side goes on before the other has answered."""
    token = np.zeros(1, dtype=np.int64)
    elapsed = [np.zeros(5, dtype=np.int64) for _ in range(2)]
    threads = [
        threading.Thread(target=cores.pass_token, args=(token, side, elapsed[side], 2_000, 10**9))
        for side in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert token[0] == 2 * 5 * 2_000
    assert all((ns > 0).all() for ns in elapsed)


@needs_two_cores
def test_core_to_core_transfers_take_time_and_end() -> None:
    assert MACHINE.pair is not None
    samples = cores.core_to_core_samples(*MACHINE.pair, pin, trials=10, round_trips=200)
    assert samples
    assert 2.0 < min(samples) < 2000.0


def test_a_token_that_is_not_passed_on_is_given_up() -> None:
    elapsed = np.zeros(3, dtype=np.int64)
    cores.pass_token(np.zeros(1, dtype=np.int64), 1, elapsed, 10, 1000)
    assert list(elapsed) == [-1, -1, -1]


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_messages_cost_at_least_a_system_call(transport: str) -> None:
    syscall = min(cores.syscall_samples(repetitions=5))
    costs = sockets.awake_samples(transport, count=8, repetitions=10)
    assert len(costs.send) == len(costs.receive_cpu) == 10
    assert min(costs.send) > syscall
    assert min(costs.receive) > syscall


def test_larger_messages_cost_more() -> None:
    def least(size: int) -> float:
        costs = sockets.awake_samples("tcp", size=size, count=4, repetitions=20)
        return min(costs.send) + min(costs.receive)

    # In turns: the clock of a virtual machine changes between rounds, less so within one.
    more = [least(sockets.LARGE_BYTES) - least(sockets.SMALL_BYTES) for _ in range(9)]
    assert statistics.median(more) > 0


def test_what_does_not_arrive_is_noticed() -> None:
    buffer = np.zeros(64, dtype=np.uint8)
    with sockets.connections("unix", 1) as pairs:
        servers = pairs.descriptors("servers")
        assert sockets.receive_all(servers, buffer, CLOCK_MONOTONIC) == -1
        polled = sockets.poll_ready(pairs.epoll.fileno(), 1, 1, CLOCK_MONOTONIC)
        assert polled == -1
    descriptors = [end.fileno() for end in (*pairs.clients, *pairs.servers)]
    assert descriptors == [-1, -1]


def test_an_event_costs_less_than_a_call() -> None:
    call, event = sockets.epoll_samples(many=16, repetitions=15, polls=20)
    assert 0 < spread(event)[1] < spread(call)[1]


@needs_two_cores
def test_larger_messages_between_cpus_take_longer() -> None:
    assert MACHINE.pair is not None
    small, large = (
        sockets.across_samples(
            *MACHINE.pair, pin, size=size, call_bytes=READ_BYTES, count=4, rounds=20
        )
        for size in (64, 65_000)
    )
    # Both sides send and receive in every round.
    assert len(small.send) == len(small.receive) == len(large.send) > 20
    assert spread(large.send)[1] > spread(small.send)[1] > 0
    # Four calls of 16 KiB.
    assert spread(large.receive)[1] > 3 * spread(small.receive)[1]


@needs_two_cores
def test_messages_on_connections_in_epoll_sets_are_reported_before_they_are_read() -> None:
    costs = sockets.across_samples(
        *MACHINE.pair, pin, size=64, call_bytes=64, count=200, rounds=12, watched=True
    )
    assert len(costs.send) == len(costs.receive) == 16
    assert min(costs.send + costs.receive) > 0


def test_what_a_peer_adds_is_left_out_where_files_may_not_be_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collect.resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(collect.resource, "setrlimit", lambda *_: None)
    with collect.files_for(128) as few, collect.files_for(8192) as many:
        assert (few, many) == (True, False)


def test_a_profile_says_what_a_peer_adds_by_connections() -> None:
    samples = {"peer_64": [1.2, 1.3, 1.25], "peer_1024": [1.4]}
    pair = dataclasses.replace(MACHINE, pair=(0, 1))
    curve = host._peer_curve(pair, collect.Collected(short=samples))
    assert curve.points == [(64.0, 1.25), (1024.0, 1.4)]
    assert host._peer_curve(pair, collect.Collected(short={"peer_64": [1.2]})) is None


def test_a_profile_says_what_cores_that_stop_their_tick_take() -> None:
    samples = {
        "sleeper_send_ns": [11_000.0],
        "wake_latency_ns": [20_000.0, 21_000.0, 19_000.0],
        "sleeper_receiver_cpu_ns": [8_000.0, 8_100.0, 7_900.0],
        "tickless_latency_ns": [25_000.0, 26_000.0, 19_000.0],
        "tickless_receiver_cpu_ns": [13_000.0, 13_200.0, 12_800.0],
    }
    pair = dataclasses.replace(MACHINE, pair=(0, 1))
    awake = {
        name: measured([ns], "ns", "given")
        for name, ns in (
            *(("epoll_wait_ns", 300.0), ("epoll_event_ns", 100.0)),
            *(("tcp_recv_ns", 600.0), ("tcp_send_ns", 4_000.0)),
        )
    }
    leaves = host._sleeping(pair, collect.Collected(short=samples), awake)
    assert leaves["tickless_block_scale"].value == pytest.approx(12.0 / 7.0, rel=1e-3)
    assert leaves["tickless_latency_scale"].value == pytest.approx(1.25, rel=1e-3)
    # No core wakes up sooner because it has stopped its tick.
    assert leaves["tickless_latency_scale"].low >= 1.0
    ticking = {name: ns for name, ns in samples.items() if not name.startswith("tickless")}
    assert "tickless_block_scale" not in host._sleeping(
        pair, collect.Collected(short=ticking), awake
    )


def test_a_side_that_is_left_alone_gives_up() -> None:
    turn, took = np.zeros(16, np.int64), np.zeros((2, 3), np.int64)
    with sockets.connections("tcp", 1) as pairs:
        servers, buffer = pairs.descriptors("servers"), np.zeros(64, np.uint8)
        assert sockets.exchange(servers, -1, buffer, 64, 1, turn, took, patience=1000) == -1
    assert turn[0] == -1, "the other side is told"


def test_code_like_an_engines_says_how_many_instructions_fit_a_cycle() -> None:
    found = collect.Collected(short={"clock_ghz": [4.0], "answer_ns": [29.2, 36.5, 24.3]})
    leaf = host._user_ipc(found)
    assert leaf.value == pytest.approx(cores.ANSWER_INSTRUCTIONS / (4.0 * 29.2), rel=1e-3)
    assert (leaf.low, leaf.high) == (
        pytest.approx(0.8 * leaf.value, rel=1e-3),
        pytest.approx(1.2 * leaf.value, rel=1e-3),
    )
    measured_here = cores.answer_samples(repetitions=3, batches=5)
    assert 5.0 < min(measured_here) < 1000.0


def test_code_that_repeats_says_how_many_more_instructions_fit_a_cycle() -> None:
    found = collect.Collected(
        short={"answer_ns": [29.2, 58.4, 29.2], "element_ns": [11.3, 22.6, 22.6]}
    )
    assert host._repeat_ipc_ratio(found).value == pytest.approx(2.0, rel=1e-3)
    measured_here = cores.element_samples(repetitions=3, times=20)
    assert 2.0 < min(measured_here) < 1000.0


@needs_two_cores
def test_waking_a_sleeper_takes_longer_than_sending() -> None:
    assert MACHINE.pair is not None
    awake = sockets.awake_samples("unix", count=8, repetitions=20)
    asleep = sockets.sleeper_samples("unix", *MACHINE.pair, pin, messages=60, pause_us=200.0)
    if len(asleep.latency) < 10:
        pytest.skip("too busy here for a thread to fall asleep between messages")
    assert len(asleep.latency) == len(asleep.send) == len(asleep.receiver_cpu) < 60
    assert spread(asleep.latency)[1] > spread(awake.send)[1]
    assert spread(asleep.receiver_cpu)[1] > spread(awake.receive)[0]


def test_a_sender_that_keeps_the_tick_takes_its_socket_out_of_the_set_again() -> None:
    start, end = np.zeros(3, np.int64), np.zeros(3, np.int64)
    with sockets.connections("tcp", 1) as pairs, select.epoll() as left:
        client, epoll = pairs.clients[0].fileno(), left.fileno()
        assert sockets.send_to_sleeper(client, 1000, start, end, ticking_epoll=epoll) == 0
        left.register(client)  # fails for a socket that is still there
        assert len(pairs.servers[0].recv(1024)) == 3 * sockets.SMALL_BYTES
        assert sockets.send_to_sleeper(client, 1000, start, end, ticking_epoll=epoll) == -1
    assert (start <= end).all()


def test_only_messages_that_met_a_sleeper_count() -> None:
    start = np.array([0, 100_000, 200_000, 300_000, 400_000])
    # The second message found its receiver gone until after the third was sent.
    woken = np.array([20_000, 210_000, 211_000, 320_000, 420_000])
    assert list(sockets.found_asleep(start, woken)) == [False, True, False, True, True]


@pytest.fixture(scope="module")
def keys() -> dict[str, tuple[ssl.SSLContext, ssl.SSLContext]]:
    found = {key: encryption.contexts(key) for key in ("ecdsa", "rsa")}
    if None in found.values():
        pytest.skip("needs an openssl command")
    return {key: both for key, both in found.items() if both is not None}


def test_signing_with_rsa_takes_longer(
    keys: dict[str, tuple[ssl.SSLContext, ssl.SSLContext]],
) -> None:
    ecdsa, rsa = (
        min(encryption.handshake_samples(*keys[key], repetitions=40)) for key in ("ecdsa", "rsa")
    )
    assert 20.0 < ecdsa < rsa < 20_000.0


def test_records_cost_something_and_so_do_their_bytes(
    keys: dict[str, tuple[ssl.SSLContext, ssl.SSLContext]],
) -> None:
    by_record, by_byte = encryption.record_samples(*keys["ecdsa"], repetitions=9, records=40)
    assert len(by_record) == len(by_byte) == 9
    # Differences of timings: whatever else the machine does disturbs some of them, either way.
    assert 30.0 < statistics.median(by_record) < 50_000.0
    assert 0.02 < statistics.median(by_byte) < 20.0


def test_a_message_of_two_records_does_not_come_at_once(
    keys: dict[str, tuple[ssl.SSLContext, ssl.SSLContext]],
) -> None:
    link = encryption.EncryptedLink(*keys["ecdsa"])
    link.exchange(bytes(encryption.LARGE_BYTES))
    with pytest.raises(ssl.SSLError):
        link.exchange(bytes(2 * encryption.LARGE_BYTES))


def test_without_a_way_to_make_keys_tls_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = collect.Collected()
    collect._encryption(found)
    assert found.short == {}
    assert host._tls(found) is None


@given(st.lists(st.floats(0.1, 1e7), min_size=1, max_size=30))
def test_a_measured_leaf_holds_its_quartiles(samples: list[float]) -> None:
    leaf = measured(samples, "ns", "test")
    assert leaf.value is not None
    assert leaf.low is not None
    assert leaf.high is not None
    assert leaf.low <= leaf.value <= leaf.high
    assert min(samples) * 0.999 <= leaf.low
    assert leaf.high <= max(samples) * 1.001


def test_extra_cost_stays_a_cost() -> None:
    assert extra([5.0, 6.0, 7.0], 2.0, "ns", "test").value == 4.0
    assert extra([5.0], 9.0, "ns", "test").value == 1.0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and short captures: what comes out is not right, but comes out the same way."""
    everything = memory.working_sets
    monkeypatch.setattr(memory, "working_sets", lambda _: everything(2**21, 16384)[::3])
    monkeypatch.setattr(collect, "CHAINS", (1, 4))
    monkeypatch.setattr(collect, "_WATCH_S", 0.1)
    monkeypatch.setattr(collect, "_REGIONS", (2**22, 2**23))
    monkeypatch.setattr(collect, "_PAUSES_MS", (0.5, 2.0))
    monkeypatch.setattr(collect, "_WINDOWS_A_ROUND", 2)
    monkeypatch.setattr(collect, "_WINDOW_REPETITIONS", 10)
    monkeypatch.setattr(collect, "PEER_CONNECTIONS_MEASURED", collect.PEER_CONNECTIONS_MEASURED[:2])
    monkeypatch.setattr(collect, "_PEER_MESSAGES", 600)
    monkeypatch.setattr(collect, "_SLEEPERS_A_ROUND", 1)
    monkeypatch.setattr(collect, "_MESSAGES_TO_SLEEPERS", 100)
    monkeypatch.setattr(collect, "_TICK_STOPS_US", 20_000.0)
    monkeypatch.setattr(collect, "_SETTLE_S", 0.0)


@pytest.mark.usefixtures("quick")
def test_a_captured_profile_is_complete_and_loads_again(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    lines: list[str] = []
    started = time.monotonic()
    profile = capture_host(progress=lines.append)
    assert time.monotonic() - started < 40
    assert os.sched_getaffinity(0) == before
    assert len(lines) >= 4
    file = tmp_path / "host.yaml"
    file.write_text(profile.to_yaml())
    assert load_host(file) == profile
    # However another part writes the model out, it must read back.
    for options in ({}, {"exclude_none": True}, {"exclude_defaults": True}):
        data = yaml.safe_load(yaml.safe_dump(profile.model_dump(mode="json", **options)))
        assert parse(HostProfile, data, file="x") == profile
    speed = profile.speed()
    assert speed.cores == MACHINE.usable_cpus
    assert speed.memory_gib == pytest.approx(MACHINE.memory_bytes / 2**30, rel=1e-3)
    kinds = {path: leaf.kind for path, leaf in profile.quantities()}
    for path in ("clock_ghz", "dram.latency_ns", "kernel.tcp_send_ns", "kernel.epoll_wait_ns"):
        assert kinds[path] == "measured"
    assert profile.raw is not None
    assert {"clock_ghz", "latency_ns_small_pages", "tcp_send_ns"} <= set(profile.raw)
    assert profile.latency_curve is not None
    sizes = [size for size, _ in profile.latency_curve.points]
    assert all(small < large for small, large in itertools.pairwise(sizes))
    assert (profile.interruptions is None) == (MACHINE.pair is None or MACHINE.usable_cpus < 2)
    if profile.interruptions is not None:
        durations_us, rates = zip(*profile.interruptions.points, strict=True)
        assert durations_us == collect.INTERRUPTIONS_US
        assert list(rates) == sorted(rates, reverse=True)
        assert speed.interruptions == tuple(profile.interruptions.points)
    assert (profile.tls is None) == (shutil.which("openssl") is None)
    if profile.tls is not None:
        assert profile.tls.record_ns.kind == "measured"
        assert speed.tls_record_ns == profile.tls.record_ns.value
    alone = MACHINE.pair is None or MACHINE.usable_cpus < 2
    for name in ("recv_curve", "send_curve", "wake_curve"):
        assert (getattr(profile, name) is None) == alone
    assert speed.l3_fills_per_us > 0
    assert kinds["user_ipc"] == "measured"
    assert kinds["l3_fills_per_us"] == kinds["variation.window"] == "measured"
    assert [size for size, _ in speed.walk_curve] == [2.0**22, 2.0**23]
    assert [walk for _, walk in speed.walk_curve] == sorted(walk for _, walk in speed.walk_curve)


def stuck(reason: str, times: float = math.inf, *, within_s: float = 0.05) -> Any:
    """A probe that another program stops so many times, each after a while."""
    left = [times]

    def probe(*_: Any, **__: Any) -> Any:
        if left[0] <= 0:
            return probe.real(*_, **__)
        left[0] -= 1
        time.sleep(within_s)
        raise sockets.DisturbedError(f"{reason}.")

    return probe


def stop_probe(monkeypatch: pytest.MonkeyPatch, name: str, times: float = math.inf) -> None:
    """Have another program stop one of the probes of `sockets`."""
    probe = stuck("another program held a CPU", times)
    probe.real = getattr(sockets, name)
    monkeypatch.setattr(sockets, name, probe)


@pytest.mark.usefixtures("quick")
@needs_two_cores
def test_a_probe_that_is_stuck_for_good_leaves_a_range_and_all_other_probes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("across_samples", "sleeper_samples", "epoll_samples"):
        stop_probe(monkeypatch, name)
    monkeypatch.setattr(collect, "_RETRY_S", 0.3)
    started_s = time.monotonic()
    profile = capture_host()
    assert time.monotonic() - started_s < 40
    leaves = dict(profile.quantities())
    for path in ("kernel.epoll_wait_ns", "kernel.epoll_event_ns", "kernel.wake_latency_ns"):
        assert leaves[path].kind == "assumed"
        assert leaves[path].value is None
    # As wide as the catalogue, whose hosts all lie in the range.
    for known in (load_host("graviton3"), load_host("zen3-milan")):
        assert leaves["kernel.epoll_wait_ns"].low <= known.kernel.epoll_wait_ns.best
        assert known.kernel.epoll_wait_ns.best <= leaves["kernel.epoll_wait_ns"].high
    assert profile.recv_curve is None
    assert profile.wake_curve is None
    for path in ("kernel.tcp_send_ns", "core_to_core_ns", "dram.latency_ns"):
        assert leaves[path].kind == "measured"
    for what in ("messages between two CPUs", "waking a thread", "epoll_wait"):
        [note] = [note for note in profile.notes if note.startswith(what)]
        assert "could not be measured" in note
        assert "another program held a CPU" in note
    file = tmp_path / "host.yaml"
    file.write_text(profile.to_yaml())
    assert load_host(file) == profile
    assert load_host(file).speed().epoll_wait_ns > 0


@pytest.mark.usefixtures("quick")
@needs_two_cores
def test_a_probe_that_is_stuck_once_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("awake_samples", "epoll_samples", "across_samples"):
        stop_probe(monkeypatch, name, times=1)
    profile = capture_host()
    leaves = dict(profile.quantities())
    for path in ("kernel.tcp_send_ns", "kernel.epoll_wait_ns"):
        assert leaves[path].kind == "measured"
    assert profile.recv_curve is not None
    assert not any("could not be measured" in note for note in profile.notes)


def test_a_probe_is_tried_again_for_so_long_in_all_rounds_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collect, "_RETRY_S", 0.2)
    found = collect.Collected()
    probe = stuck("held")
    started_s = time.monotonic()
    for _ in range(3):
        assert not found.attempt("epoll_wait", probe)
    # 0.2 s of attempts, then one in each of the other rounds.
    assert 0.25 <= time.monotonic() - started_s < 2.0
    assert found.short == {}


def test_what_a_stopped_run_had_measured_does_not_count() -> None:
    runs = []

    def run(own: collect.Collected) -> None:
        own.add("epoll_wait_ns", [float(len(runs))])
        runs.append(own)
        if len(runs) == 1:
            raise sockets.DisturbedError("held.")

    found = collect.Collected()
    assert found.attempt("epoll_wait", run)
    assert found.short == {"epoll_wait_ns": [1.0]}


@pytest.mark.usefixtures("quick")
def test_a_slow_machine_gets_fewer_rounds_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "_ROUNDS_S", 0.0)
    profile = capture_host()
    assert profile.raw is not None
    assert len(profile.raw["clock_ghz"]) == 15  # of one round
    assert any("1 of 3 rounds" in note for note in profile.notes)


def test_of_few_samples_the_range_is_all_of_them() -> None:
    few, many = measured([3.0, 1.0, 2.0], "ns", "test"), measured([3.0, 1.0, 2.0] * 2, "ns", "test")
    assert (few.low, few.value, few.high) == (1.0, 2.0, 3.0)
    assert (many.low, many.value, many.high) == (1.25, 2.0, 2.75)


def test_memory_that_is_slow_to_touch_ends_the_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect, "_REGIONS", (2**22, 2**23, 2**24))
    touch = memory.Buffer.touch

    def touch_slowly(self: memory.Buffer, size_bytes: int, *, until_s: float = math.inf) -> bool:
        # The largest region takes for ever.
        return touch(self, size_bytes, until_s=until_s if size_bytes < 2**24 else 0.0)

    monkeypatch.setattr(memory.Buffer, "touch", touch_slowly)
    found = collect.Collected(rounds=collect.ROUNDS)
    collect._regions(MACHINE, found)
    assert list(found.region_ns) == [2**22, 2**23]
    [note] = host._shortened(found)
    assert "2 of 3 regions, up to 8 MiB" in note


def test_a_key_that_takes_too_long_leaves_encryption_assumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    slow = tmp_path / "openssl"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(encryption, "_KEY_S", 0.2)
    assert encryption.contexts("rsa") is None


@pytest.mark.usefixtures("quick")
def test_one_core_gives_ranges_where_two_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dataclasses.replace(
        MACHINE, cpus=MACHINE.cpus[:1], pair=None, quota_cpus=0.5, caches={}, sockets=1
    )
    monkeypatch.setattr(host, "inspect_machine", lambda: one)
    profile = capture_host()
    leaves = dict(profile.quantities())
    for path in ("core_to_core_ns", "kernel.wake_send_ns", "kernel.block_ns"):
        assert leaves[path].kind == "assumed"
        assert leaves[path].value is None
    assert leaves["caches.L3.size_bytes"].kind == "assumed"
    assert profile.interruptions is None
    assert profile.speed().cores == 1
    assert any("0.5 CPUs" in note for note in profile.notes)


# --- windows and days -----------------------------------------------------------------------------


def captured_on(date: str, *, send_ns: float, cpu: str = "Some CPU") -> HostProfile:
    """A captured profile of a day, from a catalogue host."""
    host = load_host("graviton3")
    kernel = host.kernel.model_copy(
        update={
            "tcp_send_ns": host.kernel.tcp_send_ns.model_copy(
                update={"value": send_ns, "low": None, "high": None}
            )
        }
    )
    day = Captured(date=date, cpu_model=cpu, kernel="6.1", tool="forecache", elapsed_s=30.0)
    update = {"id": date, "microarchitecture": cpu, "kernel": kernel, "captured": day}
    return host.model_copy(update={**update, "variation": None})


def test_days_are_compared_by_the_time_of_a_message() -> None:
    today = captured_on("2026-03-03", send_ns=4000.0)
    earlier = [captured_on(f"2026-03-0{day}", send_ns=ns) for day, ns in ((1, 3600.0), (2, 4400.0))]
    found = with_days(today, earlier)
    assert found.variation is not None
    assert found.variation.day is not None
    messages = [h.kernel.tcp_send_ns.best + h.kernel.tcp_recv_ns.best for h in (today, *earlier)]
    assert found.variation.day.best == pytest.approx(np.log(messages).std(ddof=1), rel=1e-3)
    assert found.variation.day.low is not None
    assert found.variation.day.low < found.variation.day.best
    assert found.variations()["start"].kind == "assumed"
    assert today.variation is None


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        (captured_on("2026-03-01", send_ns=1.0, cpu="Another CPU"), "found Another CPU; valid is"),
        (captured_on("2026-03-03", send_ns=1.0), "found a second profile of 2026-03-03; valid is"),
        (load_host("graviton3"), "valid is a captured profile of this machine"),
    ],
)
def test_days_of_other_machines_and_the_same_day_are_refused(
    earlier: HostProfile, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        with_days(captured_on("2026-03-03", send_ns=4000.0), [earlier])
