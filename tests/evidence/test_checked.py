"""Points by engine, host and tier: their errors, the tables, and the file beside the page."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from evidence.accuracy.checked import Cell, cells, host_name
from evidence.accuracy.checked_page import FIELDS, json_file, matrix_section
from evidence.accuracy.compared import ANCHORED, CATALOGUE, OBSERVED, TIERS, Compared, Place
from evidence.accuracy.errors import Errors, errors_of
from forecache.calibration.fit.report import THROUGHPUT
from forecache.models.advice.node_answers import HostSummary
from forecache.models.prediction.system import Basis
from forecache.reports.text.points import basis_phrase

ZEN_5 = "captured-amd-epyc-26-2-2cpus"


def point(
    error: float, *, repeat: float | None = None, half: float | None = None, tier: str = OBSERVED
) -> Compared:
    place = Place("made", "get P1", THROUGHPUT, "valkey-9.1", ZEN_5, "one thread", 1)
    predicted = 1000.0 * (1.0 + error)
    ends = (None, None) if half is None else (predicted * (1 - half), predicted * (1 + half))
    return Compared(place, 1000.0, predicted, *ends, tier=tier, repeat=repeat)


def elsewhere(of: Compared, *, engine: str, host: str) -> Compared:
    place = replace(of.place, engine=engine, host=host)
    return replace(of, place=place, tier=CATALOGUE)


def test_tiers_are_the_words_of_answers() -> None:
    hosts = [HostSummary(id="x", title="x", cores=2, kind=kind) for kind in get_args(Basis)]
    assert {basis_phrase(host) for host in hosts} == set(TIERS)


def test_errors_of_a_group_stand_beside_what_repeats_differ_by() -> None:
    group = [
        point(0.1, repeat=0.02, half=0.2),
        point(-0.3, repeat=0.06, half=0.2),
        point(0.2, repeat=0.04),
        point(0.0),
    ]
    found = errors_of(group)
    assert (found.points, found.with_interval, found.inside, found.level) == (4, 2, 0.5, 0.95)
    assert found.median_error == pytest.approx(0.15)
    assert found.worst_error == pytest.approx(0.3)
    assert found.repeat == pytest.approx(0.04)
    alone = errors_of([point(0.1)])
    assert (alone.inside, alone.level, alone.repeat) == (None, None, None)


def test_a_table_says_where_nothing_was_checked_and_where_little() -> None:
    points = [point(0.05, repeat=0.01)] * 12 + [point(0.2, tier=ANCHORED)]
    points += [elsewhere(point(0.5), engine="redis-8.2", host="graviton4")] * 10
    points += [elsewhere(point(0.125), engine="valkey-9.1", host="zen4-9r14")]
    text = "\n".join(matrix_section(points)).replace("\N{NO-BREAK SPACE}", " ")
    assert "| [valkey 9.1](#valkey-91) | observed here | 5.0% (1.0%) |" in text
    assert "| | anchored here | 20% (–) \\* |" in text
    assert "| graviton4 | 50% (–) | not checked |" in text
    assert "| zen4-9r14 | not checked | 12% (–) \\* |" in text
    assert "No point here is of" in text
    assert "redis 8.4" in text
    assert "redis 8.2," not in text


def test_the_file_has_every_point_and_says_what_its_fields_are() -> None:
    points = [point(0.1, repeat=0.02, half=0.2), point(-0.3), point(0.0, tier=ANCHORED)]
    past = {"date": "2026-11-23", "release": "0.1.0", "reason": "x", "quantities": {}}
    data = json.loads(json_file(points, [{**past, "code_sha256": "0"}]))
    assert data["history"] == [past]
    first, second = data["cells"]
    assert (first["tier"], second["tier"]) == (OBSERVED, ANCHORED)
    assert (first["host_name"], first["unit"]) == ("Zen 5", "requests/s")
    assert first["median_error"] == 0.2
    rows = [dict(zip(data["columns"], row, strict=True)) for row in first["each"]]
    assert rows[0] == {
        "source": "made",
        "load": "get P1",
        "measured": 1000.0,
        "predicted": 1100.0,
        "low": 880.0,
        "high": 1320.0,
        "level": 0.95,
        "error": 0.1,
        "repeat": 0.02,
    }
    assert (rows[1]["low"], rows[1]["level"], rows[1]["repeat"]) == (None, None, None)
    named = {name for names in FIELDS["cells"] for name in names.split(", ")}
    assert named == set(first)
    assert {*Cell._fields, *(each.name for each in fields(Errors))} <= named


def test_the_committed_file_has_the_points_of_its_cells(checkout: Path) -> None:
    data = json.loads((checkout / "docs/accuracy.json").read_text(encoding="utf-8"))
    assert len(data["cells"]) > 300
    places = {(c["engine"], c["host"], c["tier"], c["quantity"]) for c in data["cells"]}
    assert len(places) == len(data["cells"])
    assert {tier for _, _, tier, _ in places} == set(TIERS)
    source = data["columns"].index("source")
    for each in data["cells"]:
        assert each["points"] == len(each["each"])
        assert all(
            (checkout / f"docs/accuracy/{row[source]}.json").is_file() for row in each["each"]
        )


def test_points_are_grouped_in_their_order() -> None:
    one, other = point(0.1), point(0.2, tier=ANCHORED)
    found = cells([one, other, one])
    assert [each.tier for each in found] == [OBSERVED, ANCHORED]
    assert [len(own) for own in found.values()] == [2, 1]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        (ZEN_5, "Zen 5"),
        ("captured-amd-epyc-25-1-2cpus", "Zen 3"),
        ("captured-amd-epyc-25-17-2cpus", "Zen 4"),
        ("captured-amd-epyc-2cpus", "AMD EPYC"),
        ("captured-intel-r-xeon-r-processor-2-80ghz-6-106-2cpus", "Ice Lake"),
        ("graviton4-c8g.4xlarge", "graviton4-c8g.4xlarge"),
        ("unnamed", "not named by its source"),
    ],
)
def test_hosts_have_short_names(host: str, name: str) -> None:
    assert host_name(host) == name
