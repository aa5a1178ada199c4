"""`forecache catalog`: what there is, and where every number comes from."""

import json
from typing import Any, get_args

import pytest

from forecache import cli, verbs
from forecache.hwprofiles.quantity import Kind
from forecache.sim.errors import InputError


def test_the_listing_holds_the_hosts_and_the_instances_built_on_them() -> None:
    result = verbs.catalog()
    hosts = {row["id"] for row in result["hosts"]}
    assert {"graviton2", "graviton3", "graviton4", "icelake-8375c", "sapphire-rapids"} <= hosts
    families = {row["id"].split(".")[0] for row in result["instances"]}
    assert {"c7g", "m7g", "r7g", "c8g", "r6g", "m6i", "m7i", "r7i"} <= families
    assert all(row["host"] in hosts for row in result["instances"])


@pytest.mark.parametrize(
    "name", ["graviton3", "c7g.4xlarge", "graviton3-c7g.4xlarge", "valkey-8.0"]
)
def test_an_entry_gives_every_number_an_origin(name: str) -> None:
    result = verbs.catalog(name)
    assert name in result["id"]
    for row in result["rows"]:
        assert row["kind"] in get_args(Kind), row
        assert row["value"] is not None or (row["low"] is not None and row["high"] is not None)
        assert row["source"] is None or row["source"] in result["sources"]


def test_a_dataset_says_which_point_each_number_is_of() -> None:
    rows = verbs.catalog("valkey-8.1.1-c8g-unix-p1")["rows"]
    assert rows[0]["name"] == "SET, io-threads 1: throughput"
    assert len({row["name"] for row in rows}) == len(rows)
    assert all(row["name"].partition(": ")[0] for row in rows)


def test_every_listed_name_is_an_entry() -> None:
    listing = verbs.catalog()
    one_of_each = {row["family"]: row for row in listing["instances"]}
    rows = [*listing["hosts"], *one_of_each.values()]
    for kind in ("engines", "load_generators", "datasets"):
        rows += listing[kind]
    for row in rows:
        assert row["id"] in verbs.catalog(row["id"])["id"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("c7g.4xlrge", "did you mean 'c7g.4xlarge'"),
        ("graviton3-c7g.4xlarg", "'graviton3-c7g.4xlarge'"),
        ("graviton3-m6i.large", "m6i.large runs on icelake-8375c"),
        ("valkey-8.O", "'valkey-8.0'"),
        ("cache.r7g.large", "`forecache catalog` lists what is known of it"),
        ("zzzzzz", "`forecache catalog` lists all entries"),
        ("missing.yaml", "no such file"),
    ],
)
def test_an_unknown_name_is_helped(name: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        verbs.catalog(name)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "arguments", [[], ["graviton4"], ["m7i.2xlarge"], ["--family", "c7g"], ["--provider", "azure"]]
)
def test_what_is_printed_is_what_json_holds(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["catalog", *arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert cli.main(["catalog", *arguments]) == 0
    text = capsys.readouterr().out
    rows = result.get("rows") or result.get("hosts", []) + result.get("families", [])
    rows = rows or result["instances"]
    names = [row.get("name", row.get("id")) for row in rows]
    assert [name for name in names if name not in text.split()] == []


def test_an_engine_says_where_its_work_was_observed_and_why_it_is_reused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from forecache.models.engines import profile as engine

    known = engine.load_engine("valkey-8.1")
    observed = {
        "version": "8.0.1",
        "build": "valkey 8.0.1, build 1, jemalloc-5.3.0",
        "host": "here",
        "date": "2026-11-20",
        "depth": "clock",
    }
    reuse = {"from": "valkey-8.0", "to": "8.1", "reason": "both spend their time alike"}
    data = known.model_dump(mode="json", exclude_none=True)
    profile = engine.EngineProfile.model_validate({**data, "observed": observed, "reuse": reuse})
    monkeypatch.setattr(engine, "list_engines", lambda: [profile])
    assert cli.main(["catalog", "valkey-8.1"]) == 0
    printed = capsys.readouterr().out
    assert "observed: valkey 8.0.1, build 1, jemalloc-5.3.0, on here" in printed
    assert "reuse: the work of valkey-8.0 for 8.1: both spend their time alike" in printed


@pytest.mark.parametrize("name", ["valkey-unlock-one-million", "valkey-pr1405-cache-misses"])
def test_long_names_leave_room_for_their_numbers(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["catalog", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    entry = verbs.catalog(name)
    assert len(lines) < 3 * len(entry["rows"]) + len(entry["about"]) + 12


def test_a_source_says_which_points_of_a_dataset_it_gave(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["catalog", "graviton4"]) == 0
    assert "takes valkey-pr1405-cache-misses points 0, 4" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_a_listing_cuts_no_name_however_narrow(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert cli.main(["catalog"]) == 0
    printed = capsys.readouterr().out
    assert "…" not in printed
    words = set(printed.split())
    for kind, rows in verbs.catalog().items():
        assert kind == "instances" or all(row["id"] in words for row in rows)
    for row in verbs.catalog()["hosts"]:
        assert f"{row['clock_ghz']:.4g}" in words


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"family": "C7G"}, {"c7g"}),
        ({"family": "dpsv6"}, {"Dpsv6"}),
        ({"provider": "google", "arch": "aarch64"}, {"c4a", "t2a"}),
        ({"min_memory_gib": 1537}, {"r8i", "c4d"}),
        ({"provider": "azure", "min_memory_gib": 1e6}, set()),
    ],
)
def test_instances_are_filtered(asked: dict[str, Any], expected: set[str]) -> None:
    result = verbs.catalog(**asked)
    assert set(result) == {"instances"}
    assert {row["family"] for row in result["instances"]} == expected
    for row in result["instances"]:
        assert row["memory_gib"] >= asked.get("min_memory_gib", 0)


def test_instances_are_readable_at_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main(["catalog", "--min-memory", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    [row] = [line.split() for line in lines if line.startswith("c7g.4xlarge")]
    assert row == ["c7g.4xlarge", "graviton3", "16", "16", "32", "7.5", "to", "15", "0.58"]
    [row] = [line.split() for line in lines if line.startswith("Standard_D2s_v6")]
    assert row == ["Standard_D2s_v6", "emerald-rapids", "2", "1", "8", "≤", "12.5", "–"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--family", "c7h"], "--family: found 'c7h'; did you mean 'c7a' or 'c7g' or 'c7i'"),
        (["c7g.large", "--arch", "aarch64"], "or what instances to list, not both"),
    ],
)
def test_wrong_filters_say_what_is_valid(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["catalog", *arguments]) != 0
    assert message in capsys.readouterr().err
