"""`forecache compare` on the command line."""

import json

import pytest

from tests.models.conftest import short_runs as short_runs

from .conftest import Run

PAIR = ("examples/compare.yaml", "examples/compare/after.yaml")


@pytest.mark.usefixtures("short_runs")
def test_a_pair_fits_eighty_columns_and_json_has_the_same(forecache: Run) -> None:
    done = forecache("compare", *PAIR, "-q", COLUMNS="80")
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    rows = [line for line in done.stdout.splitlines() if line.startswith("requests/s")]
    assert len(rows) == 1
    assert rows[0].endswith("better")
    answer = json.loads(forecache("compare", *PAIR, "-q", "--json").stdout)
    [found] = [each for each in answer["differences"] if each["quantity"] == "throughput_rps"]
    assert found["verdict"] == "higher"
    assert f"+{100 * (found['ratio']['value'] - 1):.0f}%" in rows[0]


def test_what_is_no_node_is_sent_to_its_verb(forecache: Run) -> None:
    done = forecache("compare", PAIR[0], "examples/cost.yaml")
    assert done.returncode == 2
    assert "`forecache cost` is for cost" in done.stderr
