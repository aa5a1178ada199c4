"""What commands in turn cost beyond the same commands alone."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.step_times.command_times import (
    DISTINCT,
    LINE_CYCLES,
    MISSED_LINES,
    mixing_ns,
)
from forecache.models.step_times.inputs import NodeInputs
from forecache.models.step_times.stages import node_times

SPEED = load_host("graviton3-c7g.4xlarge").speed()
COUNTS = Path(__file__).parents[2] / "evidence" / "counts" / "mixing_counts.json"


def inputs(mix: dict[str, Any]) -> NodeInputs:
    data = {"host": "graviton3", "engine": "valkey", "io_threads": 1, "workload": {"mix": mix}}
    [case] = expand(data, file="test", schema=Scenario)
    engine = load_engine("valkey-9.1")
    work = load_generator("memtier-benchmark").generator_work()
    return NodeInputs(case.scenario, engine, engine.engine_work(), SPEED, work, SPEED)


def test_one_command_costs_nothing_more_nor_do_get_and_set() -> None:
    assert mixing_ns(inputs({"hget": 1.0})) == 0.0
    assert mixing_ns(inputs({"get": 0.7, "set": 0.3})) == pytest.approx(0.0, abs=1e-9)


def test_equally_frequent_commands_cost_what_was_counted_of_as_many() -> None:
    for number, lines in zip(DISTINCT[1:4], MISSED_LINES[1:4], strict=True):
        names = ("hget", "zadd", "lpush", "incr", "sadd", "xadd", "get", "expire")[: int(number)]
        found = mixing_ns(inputs(dict.fromkeys(names, 1.0 / number)))
        assert found == pytest.approx(LINE_CYCLES * lines / SPEED.clock_ghz, rel=1e-6)


def test_a_rare_command_costs_less_than_a_frequent_one() -> None:
    costs = [mixing_ns(inputs({"hget": 1.0 - share, "zadd": share})) for share in (0.01, 0.1, 0.5)]
    assert 0.0 < costs[0] < costs[1] < costs[2]


def test_every_command_of_a_mix_takes_longer_by_as_much() -> None:
    alone = node_times(inputs({"incr": 1.0})).execute_by_code_ps
    mixed = node_times(inputs({"incr": 0.5, "hget": 0.5}))
    more_ps = 1000 * mixing_ns(inputs({"incr": 0.5, "hget": 0.5}))
    assert mixed.execute_by_code_ps[1] - alone[0] == pytest.approx(more_ps, abs=2)


def test_the_numbers_are_the_means_of_the_counts() -> None:
    found: dict[int, list[float]] = defaultdict(list)
    for of_cache in json.loads(COUNTS.read_text()):
        if (of_cache["engine"], of_cache["version"]) == ("redis", "7.0.15"):
            for row in of_cache["sets"]:
                found[row["distinct"]].append(row["more"]["lines"])
    assert tuple(sorted(found)) == DISTINCT[1:]
    for number, lines in zip(DISTINCT[1:], MISSED_LINES[1:], strict=True):
        assert np.mean(found[int(number)]) == pytest.approx(lines, abs=0.1)
