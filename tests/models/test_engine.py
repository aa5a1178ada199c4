"""Engine and load generator profiles: which one a name means, and what no profile may hold."""

import json
from pathlib import Path
from typing import Any

import pytest

from forecache import cli
from forecache.hwprofiles.files import dump_yaml
from forecache.models.advice.answers import load_cases
from forecache.models.engines.generator import list_generators, load_generator
from forecache.models.engines.profile import WORK_NAMES, list_engines, load_engine
from forecache.models.prediction.caveats import not_covered
from forecache.sim.errors import InputError
from tests.models.made_profiles import unobserved

NEWEST = {"valkey": "valkey-9.1", "redis": "redis-8.6"}
"""What an engine without a version means, and versions above all known ones are taken as."""


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("valkey", "8.0", "valkey-8.0"),
        ("valkey", "8.0.2", "valkey-8.0"),
        ("valkey", "8.1.1", "valkey-8.1"),
        ("valkey", "9.1", "valkey-9.1"),
        ("valkey", "9.1.0-rc1", "valkey-9.1"),
        ("valkey", None, NEWEST["valkey"]),
        ("valkey-8.0", None, "valkey-8.0"),
        ("redis", "7.0.15", "redis-7.0"),
        ("redis", "8.4.2", "redis-8.4"),
        ("redis", "8.6.3", "redis-8.6"),
        ("redis", None, NEWEST["redis"]),
        ("redis", "2.8.19", "redis-2.8"),
        ("redis", "3.0.5", "redis-3.0"),
        ("redis", "3.2.6", "redis-3.2"),
        ("redis", "4.0.14", "redis-4.0"),
        ("redis", "5.0.6", "redis-5.0"),
        ("redis", "6.0.20", "redis-6.0"),
        ("redis", "6.2.14", "redis-6.2"),
        ("redis", "7.4.2", "redis-7.4"),
        ("valkey", "7.2.5", "valkey-7.2"),
    ],
)
def test_a_patch_version_follows_the_rules_of_its_version(
    name: str, version: str | None, expected: str
) -> None:
    assert load_engine(name, version).id == expected


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("valkey", "80.1", ["'80.1'", "9.1"]),
        ("valkey", "11.0", ["'11.0'", "9.1"]),
        ("valkey", "80", ["'80'", "7.2, 8.0, 8.1, 9.0, 9.0.0, 9.1, 9.1.0"]),
        ("valkey", "8", ["'8'", "8.0"]),
        ("valkey", "7.0", ["'7.0'", "7.2, 8.0"]),
        ("redis", "2.6", ["'2.6'", "2.8, 3.0, 3.2, 4.0, 5.0, 6.0, 6.2, 7.0, 7.2, 7.4, 8.0, 8.2"]),
        ("redis", "8.5", ["'8.5'", "8.4, 8.6"]),
        ("valkey", "8.10", ["'8.10'", "8.1"]),
        ("valkey", "8.5", ["'8.5'", "8.1, 9.0"]),
        ("valkey-9.1", "9.3", ["'9.3'", "9.1"]),
        ("valkey-8.0", "8.1", ["'8.1'", "8.0"]),
        ("valky", None, ["'valky'", "did you mean 'valkey'"]),
        ("dragonfly", None, ["'dragonfly'", "redis, redis-2.8"]),
        ("no/such.yaml", None, ["no/such.yaml"]),
    ],
)
def test_an_unknown_engine_or_version_is_told(
    name: str, version: str | None, told: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        load_engine(name, version)
    for words in told:
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "version", "newest"),
    [
        ("valkey", "10.3.1", NEWEST["valkey"]),
        ("valkey", "10.0", NEWEST["valkey"]),
        ("redis", "8.8.1", NEWEST["redis"]),
        ("valkey", "10.1.0-rc1", NEWEST["valkey"]),
        ("memcached", "1.7", "memcached-1.6"),
        ("elasticache-redis", "7.2", "elasticache-redis-7.1"),
    ],
)
def test_a_newer_version_is_taken_as_the_newest_known(name: str, version: str, newest: str) -> None:
    known, taken = load_engine(newest), load_engine(name, version)
    assert (taken.version, taken.taken_as) == (version, known.version)
    for field in ("policy", "layout", "whole_pipeline", "prefetch_batch", "max_io_threads"):
        assert getattr(taken, field) == getattr(known, field)
    assert taken.engine_work() == known.engine_work()
    # What was found about the other version alone says nothing about this one.
    assert (taken.covariance, taken.discrepancy) == (None, None)
    ours, theirs = taken.work["kernel_scale"], known.work["kernel_scale"]
    if theirs.kind == "fitted":
        assert ours.kind == "assumed"
        assert ours.high == pytest.approx(1.25 * theirs.high, rel=1e-3)
    words = taken.taken_as_words or ""
    assert f"{name} {version}" in words
    assert f"{name} {known.version}" in words


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("verb", ["simulate", "memory", "recommend"])
def test_every_answer_says_what_a_newer_version_is_taken_as(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario: dict[str, Any] = {
        "host": "graviton3",
        "engine": "valkey",
        "engine_version": "10.3",
        "workload": {"clients": 8, "keys": 1000},
    }
    path = tmp_path / "newer.yaml"
    path.write_text(dump_yaml({**scenario, "io_threads": {"sweep": [1, 2]}}))
    newest = NEWEST["valkey"].replace("-", " ")
    told = f"valkey 10.3 is newer than every version known here: it is taken as {newest}"
    assert cli.main([verb, str(path)]) == 0
    assert told in " ".join(capsys.readouterr().out.split())
    assert cli.main([verb, str(path), "--json"]) == 0
    assert told in json.loads(capsys.readouterr().out)["points"][0]["warnings"][0]


def test_a_written_profile_of_a_newer_version_says_what_it_is_taken_as(tmp_path: Path) -> None:
    taken = load_engine("valkey", "10.3.1")
    path = written(tmp_path, taken.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert load_engine(path).taken_as_words == taken.taken_as_words


def profile_data() -> dict[str, Any]:
    """A profile file of Valkey 8.1 that says nothing of any observation."""
    return unobserved(load_engine("valkey-8.1")).model_dump(mode="json", exclude_none=True)


def written(tmp_path: Path, data: dict[str, Any]) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(dump_yaml(data))
    return str(path)


def test_a_profile_survives_being_written(tmp_path: Path) -> None:
    for profile in list_engines():
        data = profile.model_dump(mode="json", exclude_none=True)
        assert load_engine(written(tmp_path, data)) == profile


@pytest.mark.parametrize(
    ("own", "asked", "fits"),
    [("8.1", "8.1", True), ("8.1", "8.1.1", True), ("8.1.1", "8.1", True), ("8.1", "8.0", False),
     ("9.1.2", "9.10", False)],
)  # fmt: skip
def test_a_profile_file_is_of_one_version(tmp_path: Path, own: str, asked: str, fits: bool) -> None:
    path = written(tmp_path, {**profile_data(), "version": own})
    if fits:
        assert load_engine(path, asked).version == own
    else:
        with pytest.raises(InputError, match=f"engine_version': found '{asked}'.*{own}"):
            load_engine(path, asked)


OBSERVED = {
    "version": "8.0.1",
    "build": "valkey 8.0.1, build 1, jemalloc-5.3.0",
    "host": "here",
    "date": "2026-11-20",
    "depth": "clock",
}
REUSE = {"from": "valkey-8.0", "to": "8.1", "reason": "both spend their time alike"}


@pytest.mark.parametrize("asked", [None, "8.1", "8.1.3"])
def test_work_of_another_version_needs_a_reuse_record(tmp_path: Path, asked: str | None) -> None:
    data = {**profile_data(), "observed": OBSERVED}
    with pytest.raises(InputError) as caught:
        load_engine(written(tmp_path, data), asked)
    for words in ("mine.yaml: found work observed on valkey 8.0.1", "8.1", "no reuse record"):
        assert words in str(caught.value)
    profile = load_engine(written(tmp_path, {**data, "reuse": REUSE}), asked)
    assert profile.reuse is not None
    assert profile.reuse.model_dump() == REUSE


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"from": "valkey-9.1"}, "one from valkey-9.1 to 8.1"),
        ({"from": "redis-8.0"}, "one from redis-8.0 to 8.1"),
        ({"to": "9.1"}, "one from valkey-8.0 to 9.1"),
        ({"reason": ""}, "reason"),
        ({"because": "x"}, "'reuse.because'; valid are from, reason, to"),
    ],
)
def test_a_reuse_record_names_both_versions_and_why(
    tmp_path: Path, record: dict[str, str], told: str
) -> None:
    data = {**profile_data(), "observed": OBSERVED, "reuse": {**REUSE, **record}}
    with pytest.raises(InputError, match=told):
        load_engine(written(tmp_path, data))


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (None, "no reuse record"),
        ({"from": "valkey-7.0"}, "one from valkey-7.0 to 8.1"),
        ({"from": "redis-7.2"}, "one from redis-7.2 to 8.1"),
        ({"to": "7.0"}, "one from redis-7.0 to 7.0"),
    ],
)
def test_work_of_another_engine_needs_a_record_that_names_it(
    tmp_path: Path, record: dict[str, str] | None, told: str
) -> None:
    observed = {**OBSERVED, "engine": "redis", "version": "7.0.15"}
    data = {**profile_data(), "observed": observed}
    reuse = {**REUSE, "from": "redis-7.0"}
    assert load_engine(written(tmp_path, {**data, "reuse": reuse})).observed is not None
    if record is not None:
        data["reuse"] = {**reuse, **record}
    with pytest.raises(InputError, match=f"observed on redis 7.0.15, asked.*{told}"):
        load_engine(written(tmp_path, data))


def test_an_engine_of_the_same_number_is_another_engine(tmp_path: Path) -> None:
    observed = {**OBSERVED, "engine": "redis", "version": "8.1.0"}
    with pytest.raises(InputError, match=r"observed on redis 8\.1\.0, asked for as valkey 8\.1"):
        load_engine(written(tmp_path, {**profile_data(), "observed": observed}))


def test_reuse_of_nothing_observed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="observed, which says what was reused"):
        load_engine(written(tmp_path, {**profile_data(), "reuse": REUSE}))


def test_rules_of_several_versions_do_not_make_their_work_the_same(tmp_path: Path) -> None:
    data = {**profile_data(), "version": "8.0", "versions": ["8.1"], "observed": OBSERVED}
    assert load_engine(written(tmp_path, data), "8.0.4").version == "8.0"
    with pytest.raises(InputError, match=r"observed on valkey 8\.0\.1, asked for as 8.1"):
        load_engine(written(tmp_path, data), "8.1")
    assert load_engine(written(tmp_path, {**data, "reuse": REUSE}), "8.1").version == "8.0"


def test_a_fitted_profile_is_no_profile_of_the_next_version(tmp_path: Path) -> None:
    path = written(tmp_path, {**profile_data(), "version": "8.0.1", "observed": OBSERVED})
    assert load_engine(path, "8.0").observed is not None
    with pytest.raises(InputError, match=r"found '8\.1'; valid is 8\.0\.1.*reuse record"):
        load_engine(path, "8.1")


def test_a_prediction_says_that_work_was_reused(tmp_path: Path) -> None:
    path = written(tmp_path, {**profile_data(), "observed": OBSERVED, "reuse": REUSE})
    scenario = {"host": "graviton3-c7g.4xlarge", "engine": path, "workload": {"clients": 50}}
    [(case, system)] = load_cases(scenario)
    assert any("that of valkey-8.0 is used" in w for w in not_covered(case.scenario, system))
    [(case, system)] = load_cases({**scenario, "engine": "valkey-8.0"})
    assert not any("was not measured" in w for w in not_covered(case.scenario, system))


def _without_work(data: dict[str, Any]) -> None:
    del data["work"]["loop_instructions"]


def _unknown_work(data: dict[str, Any]) -> None:
    data["work"]["lop_instructions"] = data["work"]["loop_instructions"]


def _negative_work(data: dict[str, Any]) -> None:
    data["work"]["loop_instructions"] |= {"value": 10, "low": -5, "high": 20}


def _unlisted_source(data: dict[str, Any]) -> None:
    data["work"]["loop_instructions"]["source"] = "hearsay"


def _misspelt(data: dict[str, Any]) -> None:
    data["polcy"] = data.pop("policy")


def _unknown_policy(data: dict[str, Any]) -> None:
    data["policy"] = "fibers"


def _unknown_covariance(data: dict[str, Any]) -> None:
    data["covariance"] = {"speed": {"speed": 0.1}}


def _no_range(data: dict[str, Any]) -> None:
    del data["work"]["loop_instructions"]["low"]


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_without_work, ["loop_instructions is missing"]),
        (_unknown_work, ["lop_instructions is unknown"]),
        (_negative_work, ["at least zero", "loop_instructions", "-5"]),
        (_unlisted_source, ["source listed", "loop_instructions", "hearsay"]),
        (_misspelt, ["'polcy'", "'policy'"]),
        (_unknown_policy, ["'policy'", "'fibers'", "asynchronous"]),
        (_unknown_covariance, ["covariance", "speed is unknown"]),
        (_no_range, ["loop_instructions", "low and high"]),
    ],
)
def test_a_damaged_profile_is_told_with_file_and_field(
    tmp_path: Path, damage: Any, told: list[str]
) -> None:
    data = profile_data()
    damage(data)
    path = written(tmp_path, data)
    with pytest.raises(InputError) as caught:
        load_engine(path)
    assert str(caught.value).startswith(f"{path}: ")
    for words in told:
        assert words in str(caught.value)


def test_every_shipped_number_has_a_range_that_holds_it() -> None:
    for profile in list_engines():
        ranges = profile.uncertain()
        work = profile.engine_work()
        # What an engine doesn't do at all is no matter of belief.
        assert set(ranges) == {name for name in WORK_NAMES if getattr(work, name) > 0}
        for name, (low, value, high) in ranges.items():
            assert 0 <= low <= value <= high, (profile.id, name)
            assert getattr(work, name) == value


def test_numbers_can_be_replaced() -> None:
    profile = load_engine("valkey-8.0")
    work = profile.engine_work({"get_instructions": 7.0})
    assert work.get_instructions == 7.0
    assert work.set_instructions == profile.engine_work().set_instructions


def test_load_generators_go_by_their_tools_names() -> None:
    for generator in list_generators():
        assert load_generator(generator.id) == generator
    assert load_generator("memtier_benchmark").id == "memtier-benchmark"
    with pytest.raises(InputError, match=r"found 'memtir'.*memtier-benchmark"):
        load_generator("memtir")
