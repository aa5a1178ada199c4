"""Engine and load generator profiles: which one a name means, and what no profile may hold."""

from pathlib import Path
from typing import Any

import pytest

from forecache.hwprofiles.files import dump_yaml
from forecache.models.engine import WORK_NAMES, list_engines, load_engine
from forecache.models.generator import list_generators, load_generator
from forecache.sim.errors import InputError


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("valkey", "8.0", "valkey-8.0"),
        ("valkey", "8.0.2", "valkey-8.0"),
        ("valkey", "8.1.1", "valkey-8.1"),
        ("valkey", "9.1", "valkey-9.1"),
        ("valkey", "9.1.0-rc1", "valkey-9.1"),
        ("valkey", None, "valkey-9.1"),
        ("valkey-8.0", None, "valkey-8.0"),
        ("redis", "7.0.15", "redis-7.0"),
    ],
)
def test_a_patch_version_follows_the_rules_of_its_version(
    name: str, version: str | None, expected: str
) -> None:
    assert load_engine(name, version).id == expected


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        ("valkey", "80", ["'80'", "8.0, 8.1, 9.1"]),
        ("valkey", "8", ["'8'", "8.0"]),
        ("valkey", "7.2", ["'7.2'", "8.0"]),
        ("valkey", "8.10", ["'8.10'", "8.1"]),
        ("valkey-8.0", "8.1", ["'8.1'", "8.0"]),
        ("valky", None, ["'valky'", "did you mean 'valkey'"]),
        ("memcached", None, ["'memcached'", "redis, valkey"]),
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


def profile_data() -> dict[str, Any]:
    return load_engine("valkey-8.1").model_dump(mode="json", exclude_none=True)


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
        with pytest.raises(InputError, match=f"engine_version: found '{asked}'.*{own}"):
            load_engine(path, asked)


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
        (_negative_work, ["not below zero", "loop_instructions", "-5"]),
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
        assert set(ranges) == set(WORK_NAMES)
        work = profile.engine_work()
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
