"""Machines on hosts that promise more memory than they have."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.over_time.overcommit.demand import SyntheticDemand
from forecache.models.over_time.overcommit.fleet import Fleet
from forecache.models.over_time.overcommit.manager import HOST_POLICIES, Candidates
from forecache.models.over_time.overcommit.precopy import MigrationLimits, even_writes, migrate
from forecache.models.over_time.overcommit.run import run_overcommit
from forecache.models.over_time.overcommit.schema import FlashCrowd, FleetDemand, OvercommitScenario
from forecache.models.results.series import Run


def scenario(**changes: Any) -> OvercommitScenario:
    """Twenty machines on four hosts for two hours, with something to do."""
    data: dict[str, Any] = {
        "kind": "overcommit",
        "duration_s": 7_200,
        "hosts": {"count": 4, "memory_gb": 64},
        "machines": {"count": 20},
        "demand": {"mean_gb": 6, "bursts": {"per_day": 24}},
    }
    return OvercommitScenario.model_validate(data | changes)


def facts(run: Run) -> dict[str, Any]:
    return {fact.name: fact.value for fact in run.facts}


# --- one live migration ---------------------------------------------------------------------------


@given(
    memory=st.floats(1e8, 1e12),
    ratio=st.floats(0.01, 0.9),
    bandwidth=st.floats(1e7, 1e10),
)
def test_rounds_of_a_migration_shrink_geometrically(
    memory: float, ratio: float, bandwidth: float
) -> None:
    # A working set so large that nothing is written twice: round i sends M r^i, and the last ends
    # when what is left of it and what was written in it fit into the blackout.
    dirtying = even_writes(ratio * bandwidth, working_set_bytes=1e9 * memory)
    limits = MigrationLimits(blackout_s=0.05, resume_s=0.0, timeout_s=math.inf)
    found = migrate(memory, dirtying, bandwidth_bytes_per_s=bandwidth, limits=limits)
    assert found.converged
    first_s = memory / bandwidth
    if first_s <= limits.blackout_s:
        assert found.duration_s == pytest.approx(first_s)
        return
    last = found.rounds - 1
    whole_s = first_s * (1 - ratio**last) / (1 - ratio)
    part_s = (first_s * ratio**last - limits.blackout_s) / (1 - ratio)
    assert found.blackout_s == pytest.approx(limits.blackout_s, rel=1e-6)
    assert found.duration_s == pytest.approx(whole_s + part_s + limits.blackout_s, rel=1e-6)
    assert found.sent_bytes == pytest.approx(found.duration_s * bandwidth)


def test_a_machine_that_writes_faster_than_the_network_never_gets_there() -> None:
    dirtying = even_writes(2e9, working_set_bytes=1e12)
    limits = MigrationLimits(timeout_s=120.0)
    found = migrate(20e9, dirtying, bandwidth_bytes_per_s=1e9, limits=limits)
    assert not found.converged
    assert found.duration_s == 120.0
    # But one that writes the same few pages again and again does.
    few = even_writes(2e9, working_set_bytes=0.2e9)
    assert migrate(20e9, few, bandwidth_bytes_per_s=1e9, limits=limits).converged


def test_an_idle_machine_is_sent_once() -> None:
    found = migrate(
        56e9,
        even_writes(0.0, 0.0),
        bandwidth_bytes_per_s=21.2e9 / 8,
        limits=MigrationLimits(resume_s=0.0),
    )
    # Each byte once, the last of them while it stands still.
    assert found.duration_s == pytest.approx(56 * 8 / 21.2)
    assert found.blackout_s == pytest.approx(0.3)
    assert found.rounds == 1


# --- memory ---------------------------------------------------------------------------------------


def test_growth_is_a_burst_and_then_a_steady_rate() -> None:
    machines = {"count": 1, "growth": {"gb_per_s": 0.1, "burst_gb": 5}}
    fleet = Fleet(scenario(machines=machines), machines=1)
    fleet.start(0, 0)
    taken = []
    for step in range(1, 31):
        fleet.advance(10.0 * step, 10.0, np.array([20.0]))
        taken.append(float(fleet.taken_gb[0]))
    # 5 GB at once, then one in ten seconds, until it has what it wants.
    assert taken[:4] == [5.0, 6.0, 7.0, 8.0]
    assert taken[14] == 19.0
    assert taken[-1] == 20.0
    assert fleet.scale_ups == 1


def test_unused_memory_comes_back_after_a_while_and_not_all_of_it() -> None:
    back = {"mechanism": "hotplug", "delay_s": 25, "gb_per_s": 0.2, "share": 0.5}
    fleet = Fleet(scenario(machines={"count": 1, "give_back": back}), machines=1)
    fleet.start(0, 0, taken_gb=20.0)
    taken = []
    for step in range(1, 8):
        fleet.advance(10.0 * step, 10.0, np.array([4.0]))
        taken.append(round(float(fleet.taken_gb[0]), 9))
    # Nothing for 25 s, half a step's worth, then 2 GB a step, never below what is wanted.
    assert taken[:5] == [20.0, 20.0, 19.0, 17.0, 15.0]
    assert min(taken) > 4.0


def test_a_full_host_refuses_and_says_so() -> None:
    fleet = Fleet(scenario(), machines=2)
    for machine in (0, 1):
        fleet.start(machine, 0, taken_gb=25.0)
    fleet.advance(10.0, 10.0, np.array([33.0, 33.0]))
    assert fleet.host_gb()[0] == pytest.approx(0.9 * 64)
    assert fleet.short_gb.sum() == pytest.approx(16 - (0.9 * 64 - 50))
    assert fleet.refused_scale_ups == fleet.scale_ups == 2
    fleet.swap(0)
    assert fleet.swapped_gb[0] > 0
    fleet.advance(20.0, 10.0, np.array([2.0, 2.0]))
    assert not fleet.swapped_gb.any()


@settings(max_examples=8)
@given(
    mean_gb=st.floats(2, 16),
    exhausted=st.sampled_from(["wait", "swap", "kill"]),
    placement=st.sampled_from(sorted(HOST_POLICIES)),
    victim=st.sampled_from(["largest", "smallest_that_cools", "cheapest", "random"]),
    view_age_s=st.sampled_from([0, 60]),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_host_ever_has_more_than_its_memory(
    mean_gb: float, exhausted: str, placement: str, victim: str, view_age_s: float, seed: int
) -> None:
    run = run_overcommit(
        scenario(
            machines={"count": 20, "arrivals_per_hour": 10, "lifetime_h": 2},
            demand={"mean_gb": mean_gb, "bursts": {"per_day": 24}},
            exhausted=exhausted,
            heat={"view_age_s": view_age_s},
            policies={"placement": placement, "destination": placement, "victim": victim},
            failures=[{"at_s": 3_000}],
            crowds=[{"at_s": 1_000, "lasts_s": 900, "share": 0.5, "factor": 4}],
        ),
        seed,
    )
    series = {(s.panel, s.name): s.values for s in run.series}
    # The laws are checked within the run (`Fleet.check`); here, that they could be broken at all.
    assert series["share of a host taken", "fullest host"].max() <= 1.0
    assert (series["memory", "taken"] > 0).all()
    if exhausted != "kill":
        assert facts(run)["killed"] == 0
    if exhausted != "swap":
        assert facts(run)["time with memory on disk"] == 0


def test_machines_of_a_host_that_fails_start_again_elsewhere() -> None:
    slow = {"count": 20, "growth": {"gb_per_s": 0.001, "burst_gb": 1}}
    failure = {"at_s": 3_600, "hosts": 1}
    run = run_overcommit(scenario(failures=[failure], machines=slow, demand={"mean_gb": 3}))
    assert 0 < facts(run)["restarted after a failure"] <= 20
    assert facts(run)["machines that no host had room for"] == 0
    taken = next(s.values for s in run.series if s.name == "taken")
    times_s = run.times_s
    before = taken[times_s < 3_600][-1]
    assert taken[times_s >= 3_600][0] < before


def test_two_policies_meet_the_same_demand() -> None:
    runs = [
        run_overcommit(scenario(policies={"placement": name}), 5)
        for name in ("random", "unbalanced")
    ]
    wanted = [next(s.values for s in run.series if s.name == "wanted") for run in runs]
    assert (wanted[0] == wanted[1]).all()
    again = run_overcommit(scenario(policies={"placement": "unbalanced"}), 5)
    assert again.to_dict() == runs[1].to_dict()


def test_a_policy_of_ones_own() -> None:
    def first_host(candidates: Candidates, _draws: np.random.Generator) -> int:
        return int(np.argmin(candidates.hosts))

    run = run_overcommit(scenario(demand={"mean_gb": 1.5}), placement=first_host)
    totals_gb = [bar.total for bar in run.stacks[0].bars]
    assert totals_gb[0] > 0.3 * 64
    assert totals_gb[-1] == 0.0


# --- demand ---------------------------------------------------------------------------------------


def test_demand_has_the_mean_and_the_season_it_is_said_to_have() -> None:
    demand = FleetDemand(mean_gb=8, daily_swing=0.5, peak_spread_h=0, bursts={"per_day": 0})
    made = SyntheticDemand(demand, [], machines=20_000, duration_s=86_400, seed=3)
    totals = [made.at(3_600.0 * hour).mean() for hour in range(24)]
    assert np.mean(totals) == pytest.approx(8, rel=0.03)
    assert max(totals) / min(totals) == pytest.approx(1.5 / 0.5, rel=0.05)
    assert int(np.argmax(totals)) in (0, 23, 1)


def test_tenants_in_common_make_the_sum_vary_more() -> None:
    def swing(tenants: int | None, in_common: float) -> float:
        demand = FleetDemand(
            daily_swing=0, noise=0.5, tenants=tenants, in_common=in_common, bursts={"per_day": 0}
        )
        made = SyntheticDemand(demand, [], machines=1_000, duration_s=86_400, seed=3)
        return float(np.std([made.at(600.0 * k).sum() for k in range(144)]))

    assert swing(10, 1.0) > 2 * swing(None, 0.0)


def test_a_flash_crowd_comes_and_goes() -> None:
    crowd = FlashCrowd(at_s=1_000, lasts_s=500, share=0.5, factor=3)
    plain = SyntheticDemand(FleetDemand(), [], machines=1_000, duration_s=3_600, seed=3)
    crowded = SyntheticDemand(FleetDemand(), [crowd], machines=1_000, duration_s=3_600, seed=3)
    ratio = [crowded.at(t) / plain.at(t) for t in (900.0, 1_000.0, 1_499.0, 1_500.0)]
    assert (ratio[0] == 1).all()
    assert (ratio[3] == 1).all()
    assert np.mean(np.isclose(ratio[1], 3)) == pytest.approx(0.5, abs=0.05)
    assert np.allclose(ratio[1], ratio[2])


def test_times_of_machines_are_seconds_of_a_machines_day() -> None:
    # Machines that want more than there is are short of memory for hours of a day.
    crowded = scenario(demand={"mean_gb": 16, "bursts": {"per_day": 24}}, exhausted="wait")
    told = {f.name: f for f in run_overcommit(crowded).facts if f.unit == "s per machine-day"}
    assert 3_600 < told["time short of memory"].value <= 86_400  # type: ignore[operator]
    assert len({fact.note for fact in told.values()} - {""}) == len(told) == 4
