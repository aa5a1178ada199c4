"""TLS: what it adds to each step, and which thread pays."""

from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.advice.benchmark import benchmark_command
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.node.simulate import NodeResult
from forecache.models.prediction.caveats import not_covered
from forecache.models.prediction.simulation import run, times_of
from forecache.models.prediction.system import System
from forecache.models.scenario.schema import Scenario, TlsSettings
from forecache.models.scenario.sweeps import expand
from forecache.models.step_times.wire import SESSION_LINES, SESSION_LINES_AT_ONCE, segment_bytes
from forecache.sim.errors import InputError

HOST = load_host("graviton3-c7g.16xlarge")
GENERATOR = load_generator("valkey-benchmark")
RSA = {"certificate": "rsa-2048", "new_connections_per_s": 160}


def scenario(io_threads: int = 1, command: str = "get", clients: int = 650, **top: Any) -> Scenario:
    data = {"host": "graviton3", "engine": "valkey", "io_threads": io_threads, **top}
    workload = {"clients": clients, "keys": 3_000_000, "command": command}
    [case] = expand({**data, "workload": workload}, file="test", schema=Scenario)
    return case.scenario


def system(version: str, **changes: Any) -> System:
    engine: EngineProfile = load_engine("valkey", version).model_copy(update=changes)
    return System(HOST, engine, GENERATOR)


def simulated(version: str, case: Scenario, *, seed: int = 1, **changes: Any) -> NodeResult:
    return run(system(version, **changes).inputs(case), requests=20_000, seed=seed)


def test_true_is_short_for_the_defaults() -> None:
    assert scenario(tls=True).tls == scenario(tls={}).tls == TlsSettings()
    assert scenario(tls=False).tls is None
    assert scenario(tls=False) == scenario()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tls": True, "transport": "unix_socket"}, "unix_socket"),
        ({"tls": {"certificate": "dsa"}}, "tls.certificate"),
        ({"tls": {"new_connections_per_s": -1}}, "tls.new_connections_per_s"),
        ({"tls": "yes"}, "tls"),
    ],
)
def test_what_makes_no_sense_is_told(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match="valid is") as caught:
        scenario(**given)
    assert told in str(caught.value)


def test_a_lone_thread_pays_for_every_record_and_byte() -> None:
    plain, encrypted = (simulated("8.1", scenario(clients=30, tls=tls)) for tls in (False, True))
    speed = HOST.speed()
    kernel = load_engine("valkey", "8.1").engine_work().kernel_scale
    size = len(b"*2\r\n$3\r\nGET\r\n$16\r\n") + 16 + 2 + len(b"$512\r\n") + 512 + 2
    # Two records, and a second call that receives a record's header.
    added_ns = 2 * speed.tls_record_ns + kernel * speed.tcp_recv_ns + size * speed.tls_ns_per_byte
    before, after = (1000 * r.server_cpu_us_per_request for r in (plain, encrypted))
    assert after - before == pytest.approx(added_ns, rel=0.03)
    # Each end has the same records and bytes.
    before, after = (r.load_generator_utilisation / r.throughput_rps for r in (plain, encrypted))
    assert after > 1.2 * before


def test_sessions_that_caches_no_longer_hold_are_waited_for() -> None:
    added_us = [
        simulated("8.1", scenario(clients=clients, tls=True)).server_cpu_us_per_request
        - simulated("8.1", scenario(clients=clients)).server_cpu_us_per_request
        for clients in (30, 300, 3000, 30_000)
    ]
    assert added_us == sorted(added_us)
    # In the end each line comes from memory.
    speed = HOST.speed()
    lines = SESSION_LINES / SESSION_LINES_AT_ONCE
    most_us = lines * (speed.dram_ns - speed.l2_ns) / 1000.0
    assert added_us[-1] - added_us[0] == pytest.approx(most_us, rel=0.15)


def test_a_record_is_what_one_call_sends() -> None:
    assert segment_bytes(scenario(tls=True), load_engine("valkey", "8.1")) == 16_384


def test_io_threads_encrypt_and_the_main_thread_does_not_feel_it() -> None:
    plain, encrypted = (simulated("8.1", scenario(9, tls=tls)) for tls in (False, True))
    assert encrypted.throughput_rps == pytest.approx(plain.throughput_rps, rel=0.02)
    assert max(encrypted.io_thread_utilisation) > 1.2 * max(plain.io_thread_utilisation)


def test_with_tls_an_engine_that_does_not_thread_it_has_one_thread() -> None:
    """Redis to 7.4, Valkey 7.2: `io-threads` does nothing for TLS connections."""
    own = system("8.1", tls="main_thread")
    assert own.inputs(scenario(4, tls=True)).scenario.io_threads == 1
    assert own.inputs(scenario(4)).scenario.io_threads == 4
    assert any("TLS" in line for line in not_covered(scenario(4, tls=True), own))
    assert not any("TLS" in line for line in not_covered(scenario(1, tls=True), own))


def test_what_asking_the_library_costs_valkey_8_0() -> None:
    """Valkey PR 1271: 10% of SET and 22% of GET throughput.

    Of SETs 1% is predicted: I/O threads nearly limit them on this host, as fitted.
    """
    gain = {}
    for command in ("set", "get"):
        case = scenario(9, command, tls=True)
        asks, knows = (
            simulated("8.0", case, tls_bookkeeping_by_main=asks).throughput_rps
            for asks in (True, False)
        )
        gain[command] = knows / asks - 1.0
    assert gain["get"] == pytest.approx(0.22, abs=0.07)
    assert 0.0 < gain["set"] < gain["get"]


def test_handshakes_on_the_main_thread_cost_throughput_and_elsewhere_little() -> None:
    """Valkey PR 1338, 160 new connections a second: 36% without offload, 6% with it."""
    lost = {}
    for tls in ("io_threads", "io_threads_and_handshakes"):
        losses = []
        for seed in (1, 2, 3):
            quiet, busy = (
                simulated("8.1", scenario(9, "set", tls=given), seed=seed, tls=tls)
                for given in (True, RSA)
            )
            losses.append(1.0 - busy.throughput_rps / quiet.throughput_rps)
            arrived = busy.counters["handshakes"]
            expected = 160 * busy.window_s
            assert abs(arrived - expected) < 4 * np.sqrt(expected)
            on_main = busy.counters["inline_handshakes"] / arrived
            assert on_main == (1.0 if tls == "io_threads" else pytest.approx(0.0, abs=0.1))
        lost[tls] = np.mean(losses)
    assert 0.10 < lost["io_threads"] < 0.45
    assert -0.02 < lost["io_threads_and_handshakes"] < 0.08


def test_an_ecdsa_certificate_makes_handshakes_cheaper() -> None:
    ecdsa, rsa = (
        times_of(system("8.1").inputs(scenario(tls={**RSA, "certificate": name}))).handshake_ps
        for name in ("ecdsa-p256", "rsa-2048")
    )
    assert 100e6 < ecdsa < 0.5 * rsa


def test_a_draw_is_the_same_with_and_without_tls() -> None:
    plain, encrypted, other = (
        system("8.1").inputs(scenario(tls=tls), draw=draw).speed
        for tls, draw in ((False, 3), (True, 3), (True, 4))
    )
    assert plain == encrypted
    assert encrypted.tls_record_ns != other.tls_record_ns


@pytest.mark.parametrize("tool", ["valkey-benchmark", "memtier-benchmark"])
def test_the_benchmark_command_encrypts_too(tool: str) -> None:
    case = scenario(tls=True, load_generator={"tool": tool})
    lines = benchmark_command(case).splitlines()
    assert lines
    assert all(" --tls " in line for line in lines)
