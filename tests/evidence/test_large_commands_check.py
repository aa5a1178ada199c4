"""Large commands on live engines: which engines are found, and what is predicted of the oldest."""

from pathlib import Path

import pytest

from evidence.harness import Asked
from evidence.live import large_commands_check as check
from forecache.hwprofiles import load_host
from forecache.sim.errors import InputError

OLD = "redis-2.8.19"
BUNDLE = check.ENGINES[OLD]


def test_an_engine_is_found_in_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENGINES", raising=False)
    assert OLD not in check.servers()
    server = tmp_path / OLD / "redis-server"
    server.parent.mkdir()
    server.touch()
    monkeypatch.setenv("ENGINES", str(tmp_path))
    assert check.servers()[OLD] == str(server)


def test_an_engine_that_the_study_does_not_know_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(InputError, match=r"redis-5.*redis-2\.8\.19"):
        check.artefact(Asked(only=("redis-5",)))


def test_redis_28_looks_at_a_set_that_it_takes_from_itself(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    size = check.Size(members=10_000)
    old, new = (
        check.predict("redis", version, BUNDLE, size, page_ns=1000.0)
        for version in ("2.8.19", "7.0.15")
    )
    assert list(old) == list(new) == ["import", "FLUSHDB", *check.CASES, "KEYS"]
    # One redis-cli drives both.
    assert old["SMEMBERS"].print_ns == new["SMEMBERS"].print_ns
    looks, searches = (old[name].main_thread_ns for name in (check.ONLY_OLD, "SINTER A B"))
    assert new[check.ONLY_OLD].main_thread_ns < 0.1 * looks < looks < searches


def test_what_was_measured_is_predicted_for_the_host_that_it_was_measured_on(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    for of in check.kept():
        assert load_host(f"{of['bundle']}/host.yaml").title == of["host"]


def test_a_new_prediction_leaves_what_was_measured(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout)
    of = check.kept()[-1]
    again = check.predicted_again(of)
    for before, after in zip(of["rows"], again["rows"], strict=True):
        for name in ("main_thread_ms", "lasts_ms"):
            assert after[name]["measured"] == before[name]["measured"]
