"""Queues whose answers are known, simulated to a 99% interval.

Sources: L. Kleinrock, Queueing Systems I, 1975: M/M/1 section 3.2, M/M/m section 3.5 (Erlang C),
M/M/m//K section 3.8 (machine repairman), M/G/1 section 5.6 (Pollaczek-Khinchin). M/M/1 and M/M/c
quantiles follow from the distribution of the time in the system.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.optimize import brentq

from ..check import Check, Finding, within_interval
from .queues import DETERMINISTIC, EXPONENTIAL, HYPEREXPONENTIAL, machine_repair, open_queue
from .sequential import ReplicationResult, Simulate, run_replications

SEED = 20_250_101
SERVICE_PS = 1e6
"""Mean service time of all open queues: 1 microsecond."""
WARM_UP = 20_000
CUSTOMERS = 200_000
REPLICATIONS = 20
CONFIDENCE = 0.99
THREADS = 2


def erlang_c(servers: int, load: float) -> float:
    """Probability that a customer of M/M/c waits; `load` is that of one server, below 1."""
    offered = servers * load
    below = sum(offered**k / math.factorial(k) for k in range(servers))
    full = offered**servers / math.factorial(servers) / (1.0 - load)
    return full / (below + full)


def mmc_mean_sojourn(servers: int, load: float) -> float:
    """Mean time in an M/M/c system, in mean service times."""
    return 1.0 + erlang_c(servers, load) / (servers * (1.0 - load))


def mmc_sojourn_tail(servers: int, load: float, time: float) -> float:
    """Probability of more than a time (in mean service times) in an M/M/c system.

    The wait is 0, or exponential with rate c (1 - load) with the probability of Erlang C; the
    service is exponential with rate 1. The rates must differ.
    """
    waits = erlang_c(servers, load)
    rate = servers * (1.0 - load)
    both = (rate * math.exp(-time) - math.exp(-rate * time)) / (rate - 1.0)
    return (1.0 - waits) * math.exp(-time) + waits * both


def mmc_sojourn_quantile(servers: int, load: float, q: float) -> float:
    """The q-quantile of the time in an M/M/c system, in mean service times."""
    return float(brentq(lambda time: mmc_sojourn_tail(servers, load, time) - (1.0 - q), 0.0, 1e4))


def mg1_mean_sojourn(load: float, squared_variation: float) -> float:
    """Mean time in an M/G/1 system, in mean service times (Pollaczek-Khinchin)."""
    return 1.0 + load * (1.0 + squared_variation) / (2.0 * (1.0 - load))


def repairman_working(machines: int, repairmen: int, life: float, repair: float) -> float:
    """Mean number of working machines in M/M/c//N."""
    ratio = repair / life
    weights = [1.0]
    for broken in range(machines):
        weights.append(weights[-1] * (machines - broken) * ratio / min(broken + 1, repairmen))
    total = sum(weights)
    return sum((machines - k) * weight for k, weight in enumerate(weights)) / total


def simulate_replications(simulate: Simulate) -> ReplicationResult:
    """As many replications as every check makes, to 99% intervals."""
    with ThreadPoolExecutor(THREADS) as executor:
        return run_replications(
            simulate,
            precision={},
            confidence=CONFIDENCE,
            minimum=REPLICATIONS,
            maximum=REPLICATIONS,
            executor=executor,
        )


def _open(servers: int, load: float, kind: int, variation: float) -> ReplicationResult:
    def simulate(replication: int) -> dict[str, float]:
        total = WARM_UP + CUSTOMERS
        completions_ps, sojourns_ps = np.zeros((2, total), np.int64)
        open_queue(
            *(SEED, replication, total, servers, SERVICE_PS / servers / load, SERVICE_PS),
            *(kind, variation, completions_ps, sojourns_ps),
        )
        times = sojourns_ps[WARM_UP:] / SERVICE_PS
        return {"mean": float(times.mean()), "p99": float(np.quantile(times, 0.99))}

    return simulate_replications(simulate)


def _finding(subject: str, expected: float, result: ReplicationResult, output: str) -> Finding:
    estimate = result.estimates[output]
    return within_interval(subject, expected, estimate.value, estimate.low, estimate.high)


def mm1() -> list[Finding]:
    """M/M/1: the time in the system is exponential with mean 1 / (1 - load)."""
    findings = []
    for load in (0.5, 0.8, 0.9):
        result = _open(1, load, EXPONENTIAL, 1.0)
        mean = 1.0 / (1.0 - load)
        findings.append(_finding(f"load {load}: mean sojourn / service", mean, result, "mean"))
        p99 = -math.log(0.01) * mean
        findings.append(_finding(f"load {load}: p99 sojourn / service", p99, result, "p99"))
    return findings


def mmc() -> list[Finding]:
    """M/M/c: Erlang C."""
    findings = []
    for servers, load in ((2, 0.7), (4, 0.8), (16, 0.9)):
        result = _open(servers, load, EXPONENTIAL, 1.0)
        name = f"{servers} servers, load {load}"
        mean = mmc_mean_sojourn(servers, load)
        findings.append(_finding(f"{name}: mean sojourn / service", mean, result, "mean"))
        p99 = mmc_sojourn_quantile(servers, load, 0.99)
        findings.append(_finding(f"{name}: p99 sojourn / service", p99, result, "p99"))
    return findings


def md1() -> list[Finding]:
    """M/D/1: half the wait of M/M/1."""
    return [
        _finding(
            f"load {load}: mean sojourn / service",
            mg1_mean_sojourn(load, 0.0),
            _open(1, load, DETERMINISTIC, 0.0),
            "mean",
        )
        for load in (0.5, 0.8, 0.9)
    ]


def mg1() -> list[Finding]:
    """M/G/1 with hyperexponential service: Pollaczek-Khinchin."""
    return [
        _finding(
            f"load {load}, squared variation {variation}: mean sojourn / service",
            mg1_mean_sojourn(load, variation),
            _open(1, load, HYPEREXPONENTIAL, variation),
            "mean",
        )
        for load, variation in ((0.5, 4.0), (0.8, 2.0), (0.8, 4.0))
    ]


def repairman() -> list[Finding]:
    """Machine repairman: birth and death of broken machines."""
    findings = []
    nothing = np.zeros(0, np.int64)
    for machines, repairmen, life in ((5, 1, 10.0), (10, 2, 4.0), (60, 8, 6.0)):

        def simulate(
            replication: int,
            machines: int = machines,
            repairmen: int = repairmen,
            life: float = life,
        ) -> dict[str, float]:
            # All machines work at first: a warm-up is simulated and subtracted.
            crew = (machines, repairmen, life * SERVICE_PS, SERVICE_PS, nothing)
            early_ps, start_ps = machine_repair(SEED, replication, WARM_UP, *crew)
            area_ps, end_ps = machine_repair(SEED, replication, WARM_UP + CUSTOMERS, *crew)
            return {
                "working": (area_ps - early_ps) / (end_ps - start_ps),
                "rate": CUSTOMERS * SERVICE_PS / (end_ps - start_ps),
            }

        result = simulate_replications(simulate)
        name = f"{machines} machines, {repairmen} repairmen"
        working = repairman_working(machines, repairmen, life, 1.0)
        findings.append(_finding(f"{name}: working machines", working, result, "working"))
        findings.append(_finding(f"{name}: repairs / repair time", working / life, result, "rate"))
    return findings


CHECKS = [
    Check("mm1", "M/M/1 against its closed form", mm1),
    Check("mmc", "M/M/c against Erlang C", mmc),
    Check("md1", "M/D/1 against Pollaczek-Khinchin", md1),
    Check("mg1", "M/G/1 against Pollaczek-Khinchin", mg1),
    Check("repairman", "machine repairman against birth and death", repairman),
]
