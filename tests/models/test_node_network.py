"""What the network lets through: bytes, packets, and what one connection may carry."""

from typing import Any

import numpy as np
import pytest

from forecache.models.node.setup import DRAWS, JITTER_ONE, QUANTILES
from forecache.models.node.simulate import NodeResult, simulate_node
from verification.nodes.sample_node import GET, sample_setup, sample_times

REQUEST_BYTES, REPLY_BYTES = 40, 20_000
STEADY = {
    "jitter": np.full(QUANTILES, JITTER_ONE),
    "stall_ps": np.zeros((2, QUANTILES), np.int64),
    "code_by_draw": np.full(DRAWS, GET, np.int64),
    "wire_ps_per_kib": 0,
    "request_bytes_by_code": np.array([REQUEST_BYTES, 580]),
}


def simulate(times: dict[str, Any], **changes: Any) -> NodeResult:
    usual = {"clients": 64, "generators": 8, "warmup_ps": 2 * 10**10, "end_ps": 10**11}
    return simulate_node(
        "single_thread", sample_times(**STEADY | times), sample_setup(**usual | changes)
    )


@pytest.mark.parametrize(("segment_size_bytes", "packets"), [(30_000, 2), (8_949, 4), (1_448, 15)])
def test_a_limit_on_packets_counts_both_directions(segment_size_bytes: int, packets: int) -> None:
    """A request of one packet, a reply of as many as its bytes fill."""
    packet_ps = 8_000_000
    times = {"packet_ps": packet_ps, "reply_bytes_by_code": np.array([REPLY_BYTES, 5])}
    result = simulate(times, segment_size_bytes=segment_size_bytes)
    assert result.throughput_rps == pytest.approx(1e12 / packets / packet_ps, rel=0.02)
    assert result.network_limits["packets"] == pytest.approx(1.0, abs=0.03)
    assert result.network_utilisation == result.network_limits["packets"]
    assert result.network_limits["bandwidth"] == 0.0


def test_headers_take_bandwidth() -> None:
    """Ten times the bytes of the request go over the wire for it: it is small."""
    small = {"reply_bytes_by_code": np.array([5, 5]), "wire_ps_per_kib": 100_000_000}
    bare, framed = simulate(small), simulate(small, header_bytes=360)
    assert bare.throughput_rps == pytest.approx(1e12 / (40 * 100e6 / 1024), rel=0.01)
    assert framed.throughput_rps == pytest.approx(1e12 / (400 * 100e6 / 1024), rel=0.01)
    assert framed.network_limits["bandwidth"] == pytest.approx(1.0, abs=0.01)


def test_one_connection_gets_no_more_than_its_share() -> None:
    """A lone client waits longer by what its bytes take at the connection's own rate."""
    times = {"reply_bytes_by_code": np.array([REPLY_BYTES, 5])}
    alone = {"clients": 1, "generators": 1}
    free, capped = simulate(times, **alone), simulate({**times, "flow_ps_per_kib": 1600}, **alone)
    longer_ps = (REQUEST_BYTES * 1600 >> 10) + (REPLY_BYTES * 1600 >> 10)
    assert capped.latency.mean - free.latency.mean == pytest.approx(longer_ps, rel=1e-6)
    slow = simulate({**times, "flow_ps_per_kib": 160_000_000}, **alone)
    bits = 8 * REPLY_BYTES * slow.throughput_rps
    assert 0.9 * 51.2e6 < bits < 51.2e6, "a KiB in 160 us"
    assert slow.network_limits["one connection"] == pytest.approx(1.0, abs=0.05)


def test_many_connections_share_what_one_may_not_use() -> None:
    times = {"reply_bytes_by_code": np.array([REPLY_BYTES, 5]), "flow_ps_per_kib": 16_000_000}
    one = simulate(times, clients=1, generators=1)
    many = simulate(times, clients=16, generators=8)
    assert many.throughput_rps > 8 * one.throughput_rps


def test_small_messages_overtake_those_of_other_connections() -> None:
    """Half of the requests are slow because they are large; the median request doesn't notice."""
    mixed = {
        "code_by_draw": np.arange(DRAWS) % 4 // 3,
        "request_bytes_by_code": np.array([40, 200_000]),
        "reply_bytes_by_code": np.array([5, 5]),
        "recv_ps_per_kib": 0,
        "send_ps_per_kib": 0,
    }
    few = {"clients": 8, "generators": 8, "read_limit_bytes": 10**6}
    free, capped = simulate(mixed, **few), simulate({**mixed, "flow_ps_per_kib": 1_600_000}, **few)
    slow_ps = 200_000 * 1_600_000 >> 10
    assert capped.latency.quantile(0.99) - free.latency.quantile(0.99) > 0.9 * slow_ps
    assert capped.latency.quantile(0.3) - free.latency.quantile(0.3) < 0.05 * slow_ps


def test_nothing_of_this_limits_on_one_host() -> None:
    times = {"packet_ps": 10**9, "flow_ps_per_kib": 10**9}
    result = simulate(times, same_host=1)
    assert result.network_utilisation == 0.0
    assert result.throughput_rps > 50_000


# --- interrupt cores ------------------------------------------------------------------------------

SHORT = {"reply_bytes_by_code": np.array([5, 5])}


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_interrupt_cores_limit_what_they_cannot_take(cores: int) -> None:
    times = {**SHORT, "softirq_ps": 50_000_000}
    result = simulate(times, interrupt_cores=cores)
    assert result.throughput_rps == pytest.approx(cores * 1e12 / 50e6, rel=0.02)
    assert result.interrupt_utilisation == pytest.approx(1.0, abs=0.02)


def test_each_packet_of_a_request_is_taken() -> None:
    large = {**SHORT, "request_bytes_by_code": np.array([14_000, 580]), "softirq_ps": 50_000_000}
    result = simulate(large, interrupt_cores=1, segment_size_bytes=1_448)
    assert result.throughput_rps == pytest.approx(1e12 / (10 * 50e6), rel=0.02)


def test_a_lone_request_takes_longer_by_its_interrupt() -> None:
    alone = {"clients": 1, "generators": 1}
    times = {**SHORT, "softirq_ps": 700_000}
    free, interrupted = simulate(times, **alone), simulate(times, interrupt_cores=4, **alone)
    assert interrupted.latency.mean - free.latency.mean == pytest.approx(700_000, rel=1e-6)
    share = interrupted.throughput_rps * 700e-9 / 4
    assert interrupted.interrupt_utilisation == pytest.approx(share, rel=0.01)
