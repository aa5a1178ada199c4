"""Hosts as stacked bars, migrations as ticks, and what a fleet costs."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles.instances import list_instances
from forecache.models.over_time.overcommit.run import hosts_for, run_overcommit
from forecache.models.over_time.overcommit.schema import OvercommitScenario
from forecache.models.over_time.simulate_scenario import simulate
from forecache.models.results.series import MOST_BARS, Bar, Layer, LimitLine, Run, Stack, Ticks
from forecache.sim.errors import InputError


def fields(**changes: Any) -> dict[str, Any]:
    """Sixty machines on six hosts for an hour, with hosts that become hot."""
    data: dict[str, Any] = {
        "kind": "overcommit",
        "duration_s": 3_600,
        "hosts": {"count": 6, "memory_gb": 64},
        "machines": {"count": 60},
        "demand": {"mean_gb": 3, "bursts": {"per_day": 24, "factor": 4}},
        "policies": {"fill_until": 0.7},
    }
    return data | changes


def run(seed: int = 3, **changes: Any) -> Run:
    return run_overcommit(OvercommitScenario.model_validate(fields(**changes)), seed)


def facts(found: Run) -> dict[str, Any]:
    return {fact.name: fact.value for fact in found.facts}


def stack(bars: list[Bar], *, count: int | None = None) -> Stack:
    layers = [Layer("old"), Layer("new", stands_out=True)]
    limits = [LimitLine("all", 4.0)]
    return Stack("here", 0.0, "GB", "host", len(bars) if count is None else count, layers, bars,
                 limits)  # fmt: skip


# --- what a stack promises ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bars", "count", "message"),
    [
        ([], 0, "between 1 and"),
        ([Bar("a", [1.0])], 1, "as many sizes as layers"),
        ([Bar("a", [1.0, -0.1])], 1, "not below 0"),
        ([Bar("a", [1.0, float("nan")])], 1, "not below 0"),
        ([Bar("a", [1.0, 0.0]), Bar("b", [1.0, 0.5])], 2, "highest first"),
        ([Bar("a", [1.0, 0.0]), Bar("b", [0.5, 0.0])], 1, "between 1 and 1"),
        ([Bar("a", [1.0, 0.0])] * (MOST_BARS + 1), 10_000, f"between 1 and {MOST_BARS}"),
    ],
)
def test_a_stack_that_no_plot_could_show_is_refused(
    bars: list[Bar], count: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        stack(bars, count=count)


def test_ticks_have_a_count_for_every_time() -> None:
    with pytest.raises(ValueError, match="as many counts of moves as times"):
        Run(np.array([0.0, 1.0]), [], [], ticks=[Ticks("moves", np.array([1]))])


def test_a_stack_is_plain_data_without_what_a_bar_does_not_say() -> None:
    bars = [Bar("host 1", [2.0, 1 / 3], flag="hot", note="cools"), Bar("host 0", [1.0, 0.0])]
    found = Run(np.array([0.0]), [], [], stacks=[stack(bars)]).to_dict()
    [plain] = json.loads(json.dumps(found))["stacks"]
    assert plain["bars"] == [
        {"name": "host 1", "sizes": [2.0, 0.333333], "flag": "hot", "note": "cools"},
        {"name": "host 0", "sizes": [1.0, 0.0]},
    ]
    assert plain["layers"] == [
        {"name": "old", "stands_out": False},
        {"name": "new", "stands_out": True},
    ]
    assert plain["limits"] == [{"name": "all", "value": 4.0}]


# --- of a fleet -----------------------------------------------------------------------------------


def test_bars_hold_all_memory_that_is_taken() -> None:
    found = run()
    times_s = [shown.time_s for shown in found.stacks]
    assert times_s == sorted(times_s)
    assert (times_s[0], times_s[-1]) == (0.0, 3_600.0)
    in_bars_gb = sum(bar.total for bar in found.stacks[-1].bars)
    taken = next(s.values for s in found.series if s.name == "taken")
    # Copies under way would be in the bars, and nothing else; there are none at the end.
    assert in_bars_gb == pytest.approx(taken[-1])
    for shown in found.stacks:
        assert len(shown.bars) == shown.count == 6
        memory, hot = shown.limits
        assert (memory.value, hot.value) == (64, pytest.approx(0.7 * 64))
        assert [bar.flag == "hot" for bar in shown.bars] == [
            bar.total > hot.value for bar in shown.bars
        ]


def test_the_fullest_host_is_shown_when_it_is_fullest() -> None:
    found = run()
    highest = max(bar.total for shown in found.stacks for bar in shown.bars)
    assert highest / 64 == pytest.approx(facts(found)["fullest host"])
    fullest = next(s.values for s in found.series if s.name == "fullest host")
    # Samples of the series are no more often than the steps among which it was found.
    assert highest / 64 >= fullest.max() * (1 - 1e-9)


def test_a_machine_that_leaves_is_told_at_both_hosts_and_on_top_of_its_bar() -> None:
    found = run()
    assert facts(found)["live migrations"] > 0
    [moving] = [s for s in found.stacks if s.title == "when most machines moved"]
    names = [layer.name for layer in moving.layers]
    leaving = [bar for bar in moving.bars if bar.sizes[names.index("leaves next")] > 0]
    assert leaving
    assert all(bar.flag == "hot" for bar in leaving)
    for bar in leaving:
        assert "leaves for host" in bar.note
        machine = bar.note.split(",")[0]
        target = bar.note.split("leaves for ")[1].split(";")[0]
        [other] = [b for b in moving.bars if b.name == target]
        assert f"{machine}," in other.note
        assert f"comes from {bar.name}" in other.note


def test_machines_that_came_stay_marked_until_they_leave() -> None:
    found = run()
    last = found.stacks[-1]
    place = [layer.name for layer in last.layers].index("came by migration")
    came = [bar for bar in last.bars if bar.sizes[place] > 0]
    assert came
    assert all("came from host" in bar.note for bar in came)
    assert not any(bar.sizes[place] for bar in found.stacks[0].bars)


def test_ticks_count_every_migration_once() -> None:
    found = run()
    [ticks] = found.ticks
    ended = next(s.values for s in found.series if s.name == "ended so far")
    assert ticks.counts.sum() == ended[-1] > 0
    assert (np.cumsum(ticks.counts) == ended).all()


def test_bars_and_their_data_stay_bounded_with_many_hosts() -> None:
    found = run(
        duration_s=60,
        hosts={"count": 3_000, "memory_gb": 8},
        machines={"count": 3_000},
        demand={"mean_gb": 2},
    )
    for shown in found.stacks:
        assert shown.count == 3_000
        assert len(shown.bars) == MOST_BARS
        # The first and the last of all are among those that were chosen.
        assert shown.bars[-1].total == 0.0
    highest = max(bar.total for shown in found.stacks for bar in shown.bars)
    assert highest / 8 == pytest.approx(facts(found)["fullest host"])


def test_hosts_that_failed_have_no_bar() -> None:
    found = run(failures=[{"at_s": 1_800, "hosts": 2}])
    assert found.stacks[0].count == 6
    last = found.stacks[-1]
    assert last.count == 4
    assert not {"host 0", "host 1"} & {bar.name for bar in last.bars}


# --- cost -----------------------------------------------------------------------------------------


def test_hosts_with_all_that_is_promised() -> None:
    machines = np.array([0.0, 1.0, 2.0, 9.0])
    assert hosts_for(machines, nominal_gb=64, memory_gb=64).tolist() == [0, 1, 2, 9]
    # Two fit on a host of 64 GB, since a machine isn't split; one of 100 GB takes more than one.
    assert hosts_for(machines, nominal_gb=30, memory_gb=64).tolist() == [0, 1, 1, 5]
    assert hosts_for(machines, nominal_gb=100, memory_gb=64).tolist() == [0, 2, 4, 15]


@given(machines=st.integers(0, 10_000), nominal=st.floats(0.1, 1_000), memory=st.floats(1.0, 1_000))
def test_hosts_never_have_less_than_what_is_promised(
    machines: int, nominal: float, memory: float
) -> None:
    [hosts] = hosts_for(np.array([float(machines)]), nominal_gb=nominal, memory_gb=memory)
    assert hosts * memory >= machines * nominal * (1 - 1e-6)


def test_without_a_price_a_run_tells_the_hosts_that_are_saved() -> None:
    found = run()
    assert facts(found)["hosts without overcommit"] == 60
    assert not found.tables
    assert not any(series.unit == "USD" for series in found.series)


def test_a_fleet_costs_its_hosts_and_is_compared_with_all_that_it_promises() -> None:
    found = run(cost={"usd_per_host_hour": 2.0, "source": "our own bill"})
    [table] = found.tables
    assert "our own bill" in table.title
    assert [list(row[1:]) for row in table.rows] == [
        [6.0, 12.0, 12.0 * 730],
        [60.0, 120.0, 120.0 * 730],
        [54.0, 108.0, 108.0 * 730],
    ]
    so_far = {s.name: s.values for s in found.series if s.unit == "USD"}
    assert so_far["with overcommit"] == pytest.approx(12.0 * found.times_s / 3_600)
    assert so_far["without overcommit"] == pytest.approx(120.0 * found.times_s / 3_600)
    wanted_gb = next(s.values for s in found.series if s.name == "wanted")
    assert facts(found)["memory wanted costs"] == pytest.approx(12.0 / wanted_gb.mean())


def test_an_instance_gives_the_price_and_has_to_be_large_enough() -> None:
    [price] = [i.usd_per_hour for i in list_instances() if i.name == "r7g.2xlarge"]
    found = run(cost={"instance": "r7g.2xlarge"})
    assert found.tables[0].rows[0][2] == pytest.approx(6 * price)
    assert "us-east-1" in found.tables[0].title


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ({}, "cost.instance"),
        ({"instance": "r7g.2xlarge", "usd_per_host_hour": 1.0}, "cost.instance"),
        ({"usd_per_host_hour": 1.0}, "cost.source"),
        ({"instance": "r7g.2xlarge", "source": "mine"}, "cost.source"),
        ({"instance": "r7g.large"}, "at least hosts.memory_gb"),
        ({"instance": "r7g.huge"}, "forecache catalog"),
    ],
)
def test_a_price_without_source_or_for_another_host_is_refused(
    cost: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        simulate(fields(duration_s=60, cost=cost))
