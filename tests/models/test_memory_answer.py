"""The answer of `forecache memory`: parts add up, sweeps, scenarios of nodes, 80 columns."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from forecache import cli, verbs
from forecache.reports.terminal import print_answer
from forecache.sim.errors import InputError

SCENARIO: dict[str, Any] = {
    "kind": "memory",
    "engine": "valkey",
    "engine_version": "8.0",
    "clients": 100,
    "replicas": 1,
    "maxmemory_bytes": 4_000_000_000,
    "forking": {"writes_per_s": 1000, "child_s": 10},
    "data": [
        {"type": "string", "keys": 1_000_000, "value_bytes": 300, "ttl": 0.5},
        {"type": "list", "keys": 1000, "elements": 5000, "key_bytes": 40},
    ],
}


def test_parts_add_up_to_used_memory() -> None:
    [point] = verbs.memory(SCENARIO).points
    of_keys = sum(p.keys * p.bytes_per_key for p in point.populations)
    total = of_keys + sum(point.beside.values())
    assert total == pytest.approx(point.used_memory_bytes.value)
    for population in point.populations:
        assert sum(population.parts.values()) == pytest.approx(population.bytes_per_key)


def test_a_child_costs_the_pages_that_are_written_meanwhile() -> None:
    [point] = verbs.memory(SCENARIO).points
    forked, resident = point.forked_bytes, point.resident_bytes
    copied = forked.value - forked.low
    # 10,000 writes of up to three pages: entries and objects are small, so that many meet.
    assert 20_000 * 4096 < copied < 30_000 * 4096
    assert resident < forked.low < forked.value < forked.high


def test_a_sweep_inside_the_data() -> None:
    data = [{**SCENARIO["data"][0], "ttl": {"sweep": [0.0, 1.0]}}]
    points = verbs.memory({**SCENARIO, "data": data}).points
    assert [point.given for point in points] == [{"data.0.ttl": 0.0}, {"data.0.ttl": 1.0}]
    without, having = (point.used_memory_bytes.value for point in points)
    assert having - without == pytest.approx(1_000_000 * 24 + 2**20 * 8)


def test_a_scenario_of_a_node_is_weighed_by_its_keys(checkout: Path) -> None:
    """What it sweeps is told only where it changes memory, as io_threads doesn't."""
    [point] = verbs.memory(checkout / "examples" / "quickstart.yaml").points
    assert point.given == {}
    assert [(p.type, p.keys) for p in point.populations] == [("string", 3_000_000)]
    commands = verbs.memory(checkout / "examples" / "commands.yaml").points[0]
    kinds = [population.type for population in commands.populations]
    assert kinds == ["string", "sorted_set", "hash"]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            {"kind": "cost"},
            "found 'cost'; valid here is memory or node (or no kind); ",
        ),
        ({"data": [{"type": "stream", "keys": 1}]}, "data[0]"),
        ({"data": [{"type": "string", "kyes": 1}]}, "did you mean 'keys'"),
        ({"slots_served": 5}, "valid is nothing without cluster"),
        ({"maxmemory_bytes": 100_000}, "field 'maxmemory_bytes': found 100,000 bytes"),
        ({"host": "r7g.huge"}, "r7g"),
        ({"data": [{"type": "string", "keys": 0}]}, "field 'data': found no keys"),
    ],
)
def test_a_wrong_scenario_says_what_is_wrong(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as caught:
        verbs.memory({**SCENARIO, **change})
    assert str(caught.value).startswith("scenario: ")
    assert part in str(caught.value)


@pytest.mark.parametrize("example", ["memory.yaml", "quickstart.yaml"])
def test_it_is_readable_at_80_columns(checkout: Path, example: str) -> None:
    console = Console(file=io.StringIO(), width=80)
    print_answer(verbs.memory(checkout / "examples" / example), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Keys that fit" in text
    assert "bytes/key" in text
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_simulate_says_which_verb_it_is_for(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["simulate", str(checkout / "examples" / "memory.yaml")]) == 2
    assert "`forecache memory` is for memory" in capsys.readouterr().err
