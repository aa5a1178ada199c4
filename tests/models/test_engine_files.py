"""Engine files that say only what differs, and what they are when they are loaded."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from forecache.hwprofiles.files import dump_yaml, load_yaml, read_yaml
from forecache.models.engines import profile as profiles
from forecache.models.engines.profile import WORK_NAMES, list_engines, load_engine
from forecache.sim.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "add-an-engine.md"
TAKEN: dict[str, Any] = {
    "id": "mine-1.0",
    "title": "Mine",
    "engine": "mine",
    "version": "1.0",
    "sources": {},
    "reuse": {"from": "valkey-9.1", "widen": 1.5, "reason": "it is said to be alike"},
}
OWN = {
    "value": 5.0, "unit": "instructions", "kind": "assumed", "low": 4.0, "high": 6.0, "method": "m",
}  # fmt: skip


def example() -> dict[str, Any]:
    """The file that the page shows."""
    [block] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    data: dict[str, Any] = load_yaml(block)
    return data


def loaded(tmp_path: Path, data: Mapping[str, Any], version: str | None = None) -> Any:
    path = tmp_path / "mine.yaml"
    path.write_text(dump_yaml(data), encoding="utf-8")
    return load_engine(str(path), version)


def test_the_example_of_the_page_is_valkey_9_1_with_what_it_says(tmp_path: Path) -> None:
    base, found = load_engine("valkey-9.1"), loaded(tmp_path, example(), "9.2")
    assert (found.id, found.version, found.engine) == ("valkey-9.2", "9.2", "valkey")
    assert (found.prefetch_batch, base.prefetch_batch) == (32, 16)
    assert (found.policy, found.tls, found.read_limit_bytes) == (
        base.policy, base.tls, base.read_limit_bytes,
    )  # fmt: skip
    assert found.reuse.model_dump() == {
        "from": "valkey-9.1", "to": "9.2", "reason": example()["reuse"]["reason"],
    }  # fmt: skip
    assert found.observed == base.observed
    assert list(found.sources) == ["valkey-source"]
    assert found.covariance is found.discrepancy is None
    assert found.notes == []
    assert found.work["read_instructions"].best == 600
    for name, leaf in {**found.work, **found.commands}.items():
        known = {**base.work, **base.commands}[name]
        if name == "read_instructions":
            continue
        if known.kind in ("assumed", "published"):
            assert leaf == known, name
        else:
            assert (leaf.kind, leaf.value, leaf.source) == ("assumed", known.value, None), name
            assert leaf.low == pytest.approx(known.low / 1.25, rel=1e-3), name
            assert leaf.high == pytest.approx(known.high * 1.25, rel=1e-3), name


def test_shipped_files_repeat_no_work_of_the_profile_they_name() -> None:
    folder = Path(profiles.__file__).parent
    for path in folder.glob("*.yaml"):
        data = read_yaml(path)
        if "widen" not in data.get("reuse", {}):
            continue
        own = {name: data.pop(name, {}) for name in ("work", "commands")}
        without = profiles._completed_profile({**data, "sources": {
            **load_engine(data["id"]).sources, **load_engine(data["reuse"]["from"]).sources,
        }}, file=path.name)  # fmt: skip
        for part, numbers in own.items():
            for name in numbers:
                whole = getattr(load_engine(data["id"]), part)[name]
                assert whole != getattr(without, part)[name], f"{path.name}: {part}.{name}"


def test_another_engine_is_named_in_what_was_observed(tmp_path: Path) -> None:
    found = loaded(tmp_path, TAKEN)
    assert (found.engine, found.observed.engine) == ("mine", "valkey")
    assert found.reuse.origin == "valkey-9.1"


def test_a_chain_goes_by_what_was_observed(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, {**TAKEN, "reuse": {**TAKEN["reuse"], "from": "elasticache-redis-7.1"}}
    )
    assert found.reuse.origin == "redis-7.0"
    assert found.commands == {}
    assert found.work == load_engine("elasticache-redis-7.1").work


def test_commands_may_come_from_a_third_profile(tmp_path: Path) -> None:
    reuse = {**TAKEN["reuse"], "commands_from": "redis-7.0"}
    found, counted = loaded(tmp_path, {**TAKEN, "reuse": reuse}), load_engine("redis-7.0").commands
    assert {name: leaf.value for name, leaf in found.commands.items()} == {
        name: leaf.value for name, leaf in counted.items()
    }
    assert "redis-7.0.15, in a range 1.5" in found.commands["mget_instructions"].method


def test_null_takes_a_rule_away_and_an_empty_mapping_the_commands(tmp_path: Path) -> None:
    assert load_engine("valkey-9.1").reply_reference_bytes is not None
    found = loaded(tmp_path, {**TAKEN, "reply_reference_bytes": None, "commands": {}})
    assert found.reply_reference_bytes is None
    assert found.commands == {}


def test_a_variant_may_differ_in_one_number(tmp_path: Path) -> None:
    data = {"id": "v", "variant_of": "valkey-9.1", "work": {"get_instructions": OWN}}
    found, base = loaded(tmp_path, data), load_engine("valkey-9.1")
    assert found.covariance == base.covariance
    assert {name for name in WORK_NAMES if found.work[name] != base.work[name]} == {
        "get_instructions"
    }


def test_a_profile_written_whole_stands_alone(tmp_path: Path) -> None:
    """With defaults left out, as `calibrate` writes it: they aren't those of another profile."""
    for profile in list_engines():
        data = profile.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        assert loaded(tmp_path, data) == profile


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"reuse": {"from": "valkey-9.9"}}, "'reuse.from': found 'valkey-9.9'.*did you mean"),
        ({"reuse": {"commands_from": "nobody"}}, "'reuse.commands_from': found 'nobody'"),
        ({"reuse": {"widen": 0.5}}, "'reuse.widen': found 0.5"),
        ({"reuse": {"widen": "much"}}, "'reuse.widen': found 'much'"),
        ({"reuse": {"reason": ""}}, "'reuse.reason'"),
        ({"reuse": {"because": "x"}}, "'reuse.because'"),
        ({"work": {"get_instruction": OWN}}, "'work.get_instruction'.*mean 'get_instructions'"),
        ({"commands": {"mget": OWN}}, r"'commands.mget': .*valkey-9\.1"),
        ({"variant_of": "valkey-8.0"}, "'reuse.widen': found beside variant_of"),
        ({"work": 5}, "'work': found 5"),
    ],
)
def test_a_file_that_cannot_be_completed_is_told(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    reuse = {**TAKEN["reuse"], **change.get("reuse", {})}
    with pytest.raises(InputError, match=told) as caught:
        loaded(tmp_path, {**TAKEN, **change, "reuse": reuse})
    assert str(caught.value).startswith(f"{tmp_path / 'mine.yaml'}: ")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 7}, "'version': found 7"),
        ({"version": ["7.2"]}, r"'version': found \['7.2'\]"),
        ({"version": None}, "'version': found None"),
        ({"engine": 5}, "'engine': found 5"),
    ],
)
def test_a_version_that_is_none_is_told(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    shipped = Path(profiles.__file__).parent / "redis-7.2.yaml"
    data = read_yaml(shipped) | change
    with pytest.raises(InputError, match=told):
        loaded(tmp_path, data)


def test_a_file_of_redis_without_a_version_is_told(tmp_path: Path) -> None:
    shipped = Path(profiles.__file__).parent / "redis-8.4.yaml"
    data = read_yaml(shipped)
    del data["version"]
    with pytest.raises(InputError, match="the field 'version' is missing"):
        loaded(tmp_path, data)


def test_work_that_was_never_observed_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    never = load_engine("redis-7.0").model_copy(update={"observed": None})
    monkeypatch.setattr(profiles, "_shipped_profile", lambda _id: never)
    with pytest.raises(InputError, match=r"'reuse\.from': found 'redis-7\.0'.*not observed"):
        profiles._completed_profile(TAKEN, file="mine.yaml")


def test_reuse_without_a_factor_is_told(tmp_path: Path) -> None:
    reuse = {name: text for name, text in TAKEN["reuse"].items() if name != "widen"}
    with pytest.raises(InputError, match=r"mine\.yaml: the field 'reuse\.widen' is missing"):
        loaded(tmp_path, {**TAKEN, "reuse": reuse})


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of the shipped profiles."""
    monkeypatch.setattr(
        profiles, "_shipped_files", lambda: {path.stem: path for path in tmp_path.glob("*.yaml")}
    )
    profiles._shipped_profile.cache_clear()
    yield tmp_path
    profiles._shipped_profile.cache_clear()


def test_a_shipped_id_is_its_engine_and_a_version() -> None:
    """`load_engine` opens files of the engine it is asked for only."""
    for profile in list_engines():
        assert profile.id.rpartition("-")[0] == profile.engine


def test_files_that_complete_each_other_are_told(shelf: Path) -> None:
    for name, origin in (("a", "b"), ("b", "c"), ("c", "b"), ("d", "e")):
        data = {**TAKEN, "id": name, "reuse": {**TAKEN["reuse"], "from": origin}}
        (shelf / f"{name}.yaml").write_text(dump_yaml(data))
    with pytest.raises(InputError, match=r"c\.yaml: field 'reuse\.from'.*\(b from c from b\)"):
        load_engine("a")
    (shelf / "e.yaml").write_text("id: e\nvariant_of: e\n")
    with pytest.raises(InputError, match=r"e\.yaml: field 'variant_of'.*cycle \(e from e\)"):
        load_engine("d")
