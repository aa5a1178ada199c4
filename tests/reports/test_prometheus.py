"""The text format of Prometheus, read back."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.plan.results import CapacityLimit, NodeHeadroom
from forecache.reports.prometheus import Exported, ceiling_text, exposition
from forecache.sim.statistics import Estimate

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"(?:,|$)')
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


def read(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by metric; fails where a line is none."""
    assert text.endswith("\n")
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    typed: set[str] = set()
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            kind, name, rest = line[2:].split(" ", 2)
            assert kind in ("HELP", "TYPE")
            if kind == "TYPE":
                assert rest == "gauge"
                assert name not in typed
                typed.add(name)
            continue
        sample = _SAMPLE.fullmatch(line)
        assert sample, line
        assert sample[1] in typed
        labels, left = {}, sample[2] or ""
        while left:
            pair = _PAIR.match(left)
            assert pair, left
            labels[pair[1]] = re.sub(r"\\(.)", lambda m: _ESCAPES[m[1]], pair[2])
            left = left[pair.end() :]
        found.setdefault(sample[1], []).append((labels, float(sample[3])))
    return found


@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    label=st.text(st.characters(exclude_categories=["Cs"])),
    words=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_labels_and_values_come_back(value: float, label: str, words: str) -> None:
    text = exposition([Exported("a:b_c", words, [({"node": label}, value), ({}, 1.0)])])
    assert read(text) == {"a:b_c": [({"node": label}, value), ({}, 1.0)]}


@pytest.mark.parametrize(("name", "label"), [("a-b", "x"), ("1a", "x"), ("a", "x-y"), ("a", "")])
def test_names_that_the_format_has_not_are_refused(name: str, label: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        exposition([Exported(name, "", [({label: "v"}, 1.0)])])


def test_a_ceiling_is_told_with_its_interval_and_every_node() -> None:
    nodes = [NodeHeadroom('node "1"\\', 60e3, 0.25), NodeHeadroom("b", 20e3, 0.75)]
    ceiling = CapacityLimit(
        "r7g.large", "valkey", "8.1.1", 4, {"p99_ms": 1.0}, Estimate(80e3, 70e3, 95e3), 81e3,
        "main thread", nodes, [],
    )  # fmt: skip
    found = read(ceiling_text(ceiling))
    bounds = {
        labels["bound"]: value for labels, value in found["forecache_ceiling_operations_per_second"]
    }
    assert bounds == {"low": 70e3, "best": 80e3, "high": 95e3}
    assert found["forecache_node_headroom_ratio"] == [
        ({"node": 'node "1"\\'}, 0.25),
        ({"node": "b"}, 0.75),
    ]
    [(labels, seconds)] = found["forecache_ceiling_objective_seconds"]
    assert (labels["quantile"], seconds) == ("0.99", 0.001)
    assert math.isclose(found["forecache_node_operations_per_second"][0][1], 60e3)
