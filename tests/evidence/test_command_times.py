"""Each command alone, and the further commands of upgrades: what is sent is a valid scenario."""

import pytest

from evidence.live import command_times, mixes, mixing_times, rounds, upgrades
from evidence.live.mixes import LEFT_OUT, words_of, workload_of
from forecache.models.engines.commands import counted_on
from forecache.models.scenario.workload import Workload


@pytest.mark.parametrize("engine", ["redis-2.8.19", "valkey-9.1.2"])
def test_commands_alone_are_scenarios_that_leave_their_data(engine: str) -> None:
    known = frozenset(counted_on(rounds.shipped(engine).commands))
    loads = command_times.loads(known)
    for load in loads:
        workload = Workload(**workload_of(load))
        sent = " ".join(words_of(load)).split(" ; ")
        assert len(sent) == workload.pipeline
    alone = {command for load in loads for command, *_ in load["commands"]}
    assert alone == known - LEFT_OUT


MIX = {
    "commands": [["get", 1, 6], ["hgetall", 300, 2], ["lpush", 1, 1], ["rpop", 1, 1]],
    "sizes": {"hash": 300, "list": 200},
    "value_bytes": 16,
}


def test_commands_of_a_mix_come_alone_as_often_as_all_of_it() -> None:
    alone = list(mixing_times.alone(MIX))
    sent = [row["commands"] for row in alone]
    assert sent == [
        [["get", 1, 10]],
        [["hgetall", 300, 2]],
        [["lpush", 1, 5], ["rpop", 1, 5]],
    ]
    assert [row["share"] for row in alone] == [0.6, 0.2, 0.2]


def test_what_mixing_costs_is_beyond_the_mean_of_the_commands() -> None:
    times_us = {"get": 1.0, "hgetall": 10.0, "lpush": 2.0}
    same = {"engine": "redis-7.0", "mix": 0}
    points = [{**MIX, **same, "cpu_us": [4.0], "predicted_us": 3.5}]
    for row in mixing_times.alone(MIX):
        us = times_us[row["commands"][0][0]]
        points.append({**row, **same, "cpu_us": [us], "predicted_us": 2 * us})
    [found] = mixing_times.extras(points)
    assert found["alone_us"] == pytest.approx(0.6 * 1.0 + 0.2 * 10.0 + 0.2 * 2.0)
    assert found["predicted_alone_us"] == pytest.approx(6.0)
    assert (found["turn_us"], found["predicted_turn_us"]) == (4.0, 3.5)
    without_get = [points[0], *points[2:]]
    assert mixing_times.extras(without_get) == []


@pytest.mark.parametrize("command", upgrades.FURTHER)
def test_further_commands_of_upgrades_are_counted_on_both_engines(command: str) -> None:
    [point] = [p for p in upgrades.points() if p["command"] == command]
    load = {
        "commands": [[command, upgrades.FURTHER[command], point["pipeline"]]],
        "sizes": upgrades.SIZES,
        "value_bytes": point["value_bytes"],
    }
    assert Workload(**mixes.workload_of(load)).mix is not None
    for step in upgrades.STEPS:
        for engine in step:
            assert command in counted_on(rounds.shipped(engine).commands)
