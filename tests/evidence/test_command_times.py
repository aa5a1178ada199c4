"""Each command alone, and the further commands of upgrades: what is sent is a valid scenario."""

import pytest

from evidence.live import command_times, mixes, rounds, upgrades
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
