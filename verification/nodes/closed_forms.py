"""The node model where it degenerates to something with a known answer.

With all costs but one set to nothing, a node is one station: an open load makes it M/D/1 or M/G/1
(L. Kleinrock, Queueing Systems I, 1975, section 5.6), a closed one a deterministic machine
repairman. With several stations the bounds of closed networks hold (P. J. Denning, J. P. Buzen,
"The operational analysis of queueing network models", 1978): throughput is at most that of the
slowest station, and reaches it with enough clients.
"""

from typing import Any

import numpy as np

from forecache.models.node.policies import POLICIES
from forecache.models.node.setup import JITTER_ONE, QUANTILES, NodeTimes
from forecache.models.node.simulate import NodeResult, simulate_node
from verification.nodes.sample_node import sample_setup, sample_times

from ..check import Check, Finding, within_interval, within_range
from ..queueing.closed_forms import mg1_mean_sojourn, simulate_replications

SEED = 20_250_104
SERVICE_PS = 1_000_000
"""The one cost there is: 1 microsecond."""
REQUESTS = 200_000
WARM_UP = 20_000
CONSTANT = np.full(QUANTILES, JITTER_ONE)


def costless(**costs: Any) -> NodeTimes:
    """A node in which nothing takes time but what is given."""
    usual = sample_times()
    nothing = {
        name: np.zeros_like(value) if isinstance(value, np.ndarray) else 0
        for name, value in usual._asdict().items()
    }
    kept = {
        name: getattr(usual, name)
        for name in ("request_bytes_by_code", "reply_bytes_by_code", "code_by_draw")
    }
    return usual._replace(**nothing | kept | {"jitter": CONSTANT} | costs)


def one_station(load: float, jitter: np.ndarray) -> dict[str, Any]:
    """Poisson arrivals at one server whose only work is to send the reply.

    All that has arrived is read at once and answered one by one, last first, which leaves the mean
    time in the system that of first come, first served. Requests of one client that wait together
    would be answered together, hence the many clients.
    """
    times = costless(send_ps=SERVICE_PS, jitter=jitter)
    share = jitter / JITTER_ONE
    interarrival_ps = SERVICE_PS * float(share.mean()) / load
    setup = sample_setup(
        clients=20_000,
        generators=1,
        open_loop=1,
        same_host=1,
        outstanding_limit=16,
        mean_interarrival_ps=round(interarrival_ps),
        warmup_ps=round(WARM_UP * interarrival_ps),
        end_ps=round((WARM_UP + REQUESTS) * interarrival_ps),
        series_ps=round(REQUESTS * interarrival_ps),
        seed=SEED,
    )

    def simulate(replication: int) -> dict[str, float]:
        result = simulate_node("single_thread", times, setup._replace(replication=replication))
        return {
            "mean": result.latency.mean / SERVICE_PS,
            "load": result.main_thread_utilisation,
        }

    estimates = simulate_replications(simulate).estimates
    mean_service = float(share.mean())
    variation = float((share**2).mean()) / mean_service**2 - 1.0
    return {"known": mean_service * mg1_mean_sojourn(load, variation), **estimates}


def _station_findings(load: float, jitter: np.ndarray, name: str) -> list[Finding]:
    station = one_station(load, jitter)
    mean, used = station["mean"], station["load"]
    subject = f"{name}, load {load}"
    return [
        within_interval(
            f"{subject}: mean latency / us", station["known"], mean.value, mean.low, mean.high
        ),
        within_interval(f"{subject}: utilisation", load, used.value, used.low, used.high),
    ]


def node_md1() -> list[Finding]:
    """Constant service."""
    return [
        finding
        for load in (0.3, 0.6, 0.8)
        for finding in _station_findings(load, CONSTANT, "constant service")
    ]


def node_mg1() -> list[Finding]:
    """Service as variable as an exponential one cut into 256 quantiles, and with two values."""
    quantile = (np.arange(QUANTILES) + 0.5) / QUANTILES
    exponential = np.rint(-JITTER_ONE * np.log1p(-quantile)).astype(np.int64)
    two_values = np.where(quantile < 0.9, JITTER_ONE // 2, 5 * JITTER_ONE + JITTER_ONE // 2)
    return [
        finding
        for load in (0.3, 0.6, 0.8)
        for finding in (
            *_station_findings(load, exponential, "exponential quantiles"),
            *_station_findings(load, two_values, "two values"),
        )
    ]


def node_repairman() -> list[Finding]:
    """Constant think and service times: each client waits for the others or for none."""
    times = costless(send_ps=SERVICE_PS)
    think_ps = 20 * SERVICE_PS
    findings = []
    for clients in (1, 5, 20, 21, 25, 100):
        setup = sample_setup(
            clients=clients,
            generators=1,
            same_host=1,
            think_ps=think_ps,
            warmup_ps=100 * think_ps,
            end_ps=10_100 * think_ps,
        )
        result = simulate_node("single_thread", times, setup)
        per_service = result.throughput_rps * SERVICE_PS * 1e-12
        known = min(clients / (think_ps / SERVICE_PS + 1.0), 1.0)
        findings.append(_close(f"{clients} clients: replies / service", known, per_service, 1e-3))
        waiting = max(1.0, clients - think_ps / SERVICE_PS)
        findings.append(
            _close(
                f"{clients} clients: latency / service",
                waiting,
                result.latency.mean / SERVICE_PS,
                1e-3,
            )
        )
    return findings


def _close(subject: str, known: float, found: float, tolerance: float) -> Finding:
    return within_range(subject, known, found, known * (1 - tolerance), known * (1 + tolerance))


def _closed(times: NodeTimes, clients: int, io_threads: int, policy: str) -> NodeResult:
    setup = sample_setup(
        io_threads=io_threads,
        clients=clients,
        generators=5,
        whole_pipeline=int(POLICIES[policy].samples_load),
        events_per_io_thread=0,
        initial_active=io_threads if POLICIES[policy].samples_load else 1,
        shrink_after_ps=10**17,
        warmup_ps=50 * 10**9,
        end_ps=250 * 10**9,
        series_ps=10**10,
    )
    return simulate_node(policy, times, setup)


ONE_WAY_PS = 50_000_000

# Where the work is, in microseconds a request: on the main thread, on one of the I/O threads, on
# one of the generator's threads.
STATIONS = {
    "main thread": (1.0, 0.5, 0.5),
    "I/O threads": (0.2, 3.0, 0.5),
    "generator": (0.2, 0.5, 12.0),
}


def node_bounds() -> list[Finding]:
    """Four I/O threads and a generator of five: no more than the bounds, and near them."""
    findings = []
    # Where threads own their clients, one whose command is executed late waits for another turn.
    for policy, least in (
        ("asynchronous", 0.99),
        ("shared_queues", 0.99),
        ("owning_threads", 0.98),
    ):
        for bottleneck, (main_us, io_us, generator_us) in STATIONS.items():
            # Half of an I/O thread's work reads, half writes; a turn must take some time.
            times = costless(
                loop_ps=10_000,
                own_turn_ps=10_000,
                one_way_ps=ONE_WAY_PS,
                execute_by_code_ps=np.full(2, round(main_us * 1e6)),
                recv_ps=round(io_us * 5e5),
                send_ps=round(io_us * 5e5),
                generator_send_ps=round(generator_us * 1e6),
            )
            round_trip_us = 2 * ONE_WAY_PS / 1e6 + main_us + io_us + generator_us
            saturated = min(1.0 / main_us, 4 / io_us, 5 / generator_us)
            for clients in (1, 20, 1000):
                result = _closed(times, clients, 5, policy)
                found = result.throughput_rps / 1e6
                bound = min(clients / round_trip_us, saturated)
                name = f"{policy}, {bottleneck}, {clients} clients: requests / us"
                findings.append(within_range(name, bound, found, least * bound, 1.001 * bound))
    return findings


def node_latency_floor() -> list[Finding]:
    """A lone client's round trip is the sum of its parts, to the picosecond."""
    times = costless(
        one_way_ps=ONE_WAY_PS,
        recv_ps=300_000,
        send_ps=500_000,
        parse_by_code_ps=np.array([20_000, 20_000]),
        execute_by_code_ps=np.array([100_000, 100_000]),
        poll_ps=40_000,
        poll_event_ps=3_000,
        read_event_ps=7_000,
        write_event_ps=11_000,
        wake_latency_ps=2_000_000,
        block_ps=60_000,
        doze_ps=50_000,
        generator_poll_ps=30_000,
        generator_send_ps=700_000,
        generator_recv_ps=400_000,
    )
    server_ps = 40_000 + 3_000 + 60_000 + 7_000 + 300_000 + 20_000 + 100_000 + 11_000 + 500_000
    generator_ps = 700_000 + 30_000 + 60_000 + 400_000
    known_ps = 2 * ONE_WAY_PS + 2 * 2_000_000 + server_ps + generator_ps
    setup = sample_setup(clients=1, generators=1, warmup_ps=10**9, end_ps=10**11)
    result = simulate_node("single_thread", times, setup)
    rate = result.throughput_rps * known_ps * 1e-12
    return [
        _close("lone client: mean round trip / us", known_ps / 1e6, result.latency.mean / 1e6, 0.0),
        _close("lone client: longest / us", known_ps / 1e6, result.latency.max_ps / 1e6, 0.0),
        _close("lone client: throughput times round trip", 1.0, rate, 2e-3),
    ]


CHECKS = [
    Check("node-md1", "node with one constant cost against Pollaczek-Khinchin", node_md1),
    Check("node-mg1", "node with one variable cost against Pollaczek-Khinchin", node_mg1),
    Check(
        "node-repairman", "node with constant think times against its closed form", node_repairman
    ),
    Check("node-bounds", "node in a closed network against its asymptotic bounds", node_bounds),
    Check("node-floor", "node with a lone client against the sum of its parts", node_latency_floor),
]
