"""How load spreads over hosts, against published simulations and closed forms."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import gamma

from forecache.models.over_time.overcommit.demand import SyntheticDemand, TracedDemand, read_trace
from forecache.models.over_time.overcommit.fleet import Fleet
from forecache.models.over_time.overcommit.manager import (
    Candidates,
    HostPolicy,
    best_of,
    emptiest_host,
    fullest_host,
    random_host,
)
from forecache.models.over_time.overcommit.schema import FleetDemand, OvercommitScenario
from forecache.sim.streams import generator


def _fullest(policy: HostPolicy, *, balls: int, bins: int, runs: int) -> float:
    highest = []
    for run in range(runs):
        draws = generator(run, 99)
        load = np.zeros(bins)
        for _ in range(balls):
            load[policy(Candidates(np.arange(bins), load), draws)] += 1
        highest.append(load.max())
    return float(np.mean(highest))


@pytest.mark.parametrize(
    ("balls", "runs", "expected"),
    [(100, 100, 4.2), (1_000, 20, 18.8), (10_000, 4, 1.25 * 100), (100_000, 1, 1.08 * 1_000)],
)
def test_balls_into_bins(balls: int, runs: int, expected: float) -> None:
    # M. Brooker, "Balls into bins in distributed systems" (2018): mean of the fullest of 100; a
    # quarter above the mean of 100, 8% above that of 1,000.
    assert _fullest(random_host, balls=balls, bins=100, runs=runs) == pytest.approx(
        expected, rel=0.05
    )
    if balls > 1_000:
        return
    two = _fullest(best_of(2), balls=balls, bins=100, runs=10)
    assert two < 0.75 * expected
    assert _fullest(emptiest_host, balls=balls, bins=100, runs=1) == balls / 100
    assert _fullest(fullest_host, balls=balls, bins=100, runs=1) == balls


def _mean_load(policy: HostPolicy, *, view_age_s: float) -> float:
    """Ten servers, an arrival a second, a departure of each in eight; the load is seen late."""
    draws = generator(7, 98)
    load, view, viewed_s, now_s, total = np.zeros(10), np.zeros(10), -math.inf, 0.0, 0.0
    for _ in range(9_000):
        step_s = draws.exponential(1 / (1.0 + 10 / 8))
        total += load.sum() * step_s
        now_s += step_s
        if draws.random() < 1.0 / (1.0 + 10 / 8):
            if now_s - viewed_s >= view_age_s:
                view, viewed_s = load.copy(), now_s
            load[policy(Candidates(np.arange(10), view), draws)] += 1
        else:
            server = draws.integers(10)
            load[server] = max(0, load[server] - 1)
    return total / now_s


def test_the_more_stale_the_view_the_fewer_hosts_should_be_compared() -> None:
    # M. Brooker, "The power of two random choices" (2012): all of them with a fresh view, three and
    # then two when it is 10 to 70 s old, none at all beyond some 70.
    policies = {"all": emptiest_host, "three": best_of(3), "two": best_of(2), "any": random_host}

    def best(view_age_s: float) -> str:
        loads = {name: _mean_load(p, view_age_s=view_age_s) for name, p in policies.items()}
        return min(loads, key=lambda name: loads[name])

    assert best(0.0) == "all"
    assert best(5.0) == "three"
    assert best(45.0) == "two"
    assert best(130.0) == "any"


# --- multitenancy ---------------------------------------------------------------------------------


def _one_host(machines: int, step_s: float) -> Fleet:
    """A host that gives whatever is wanted and gets it back at once."""
    return Fleet(
        OvercommitScenario.model_validate(
            {
                "kind": "overcommit",
                "hosts": {"count": 1, "memory_gb": 100_000},
                "machines": {
                    "count": machines,
                    "unit_gb": 0.01,
                    "growth": {"gb_per_s": 1_000, "burst_gb": 1_000},
                    "give_back": {
                        "mechanism": "balloon",
                        "delay_s": 0,
                        "gb_per_s": 1_000,
                        "share": 1,
                    },
                },
                "step_s": step_s,
            }
        ),
        machines=machines,
    )


def _peak_over_mean(demand: TracedDemand, machines: int, *, minutes: int) -> float:
    """99% of the memory that a host gives out, by its machines, over its mean."""
    fleet = _one_host(machines, 60.0)
    for machine in range(machines):
        fleet.start(machine, 0)
    taken = []
    for minute in range(1, minutes + 1):
        fleet.advance(60.0 * minute, 60.0, demand.at(60.0 * minute))
        taken.append(float(fleet.host_gb()[0]))
    return float(np.quantile(taken, 0.99) / np.mean(taken))


def _trace(path: Path, values: np.ndarray) -> str:
    """A trace of tenants by minute."""
    lines = [
        f"{60 * minute},{tenant},{value:.4f}"
        for tenant, row in enumerate(values)
        for minute, value in enumerate(row)
    ]
    path.write_text("time_s,tenant,memory_gb\n" + "\n".join(lines) + "\n")
    return str(path)


@pytest.mark.parametrize("shape", [1.0, 2.0, 4.0])
def test_the_more_tenants_share_a_host_the_flatter_it_is(tmp_path: Path, shape: float) -> None:
    # M. Brooker, "The economics of multitenancy" (2023), packing_sim: 99% over the mean of sums of
    # exponential (Weibull of shape 1) and Weibull tenants falls toward 1. Tenants come from a trace
    # by the bootstrap, and memory is what a host gives out.
    minutes = 1_000
    drawn = generator(11, int(shape)).weibull(shape, size=(16, minutes))
    trace = _trace(tmp_path / "trace.csv", drawn)
    found = {
        machines: _peak_over_mean(
            TracedDemand(read_trace(trace), machines=machines, seed=5), machines, minutes=minutes
        )
        for machines in (1, 10, 100)
    }
    mean = math.gamma(1 + 1 / shape)
    spread = math.sqrt(math.gamma(1 + 2 / shape) / mean**2 - 1)
    assert found[1] == pytest.approx(math.log(100) ** (1 / shape) / mean, rel=0.1)
    if shape == 1.0:
        # A sum of exponentials is gamma distributed.
        assert found[10] == pytest.approx(gamma.ppf(0.99, 10) / 10, rel=0.04)
        assert found[100] == pytest.approx(gamma.ppf(0.99, 100) / 100, rel=0.03)
    # Many of them are normal: 1 + 2.33 times the coefficient of variation over their square root.
    assert found[100] == pytest.approx(1 + 2.326 * spread / 10, rel=0.03)
    assert found[1] > found[10] > found[100]


def test_tenants_that_move_together_flatten_nothing() -> None:
    def peak_over_mean(machines: int, in_common: float) -> float:
        demand = FleetDemand(
            daily_swing=0,
            spread=0,
            noise=0.5,
            noise_memory_min=10,
            tenants=1 if in_common else None,
            in_common=in_common,
            bursts={"per_day": 0},
        )
        made = SyntheticDemand(demand, [], machines=machines, duration_s=1, seed=3)
        sums = [made.at(300.0 * step).sum() for step in range(3_000)]
        return float(np.quantile(sums, 0.99) / np.mean(sums))

    alone = math.exp(2.326 * 0.5 - 0.5**2 / 2)
    assert peak_over_mean(100, 1.0) == pytest.approx(alone, rel=0.1)
    assert peak_over_mean(100, 0.0) < 1.2
