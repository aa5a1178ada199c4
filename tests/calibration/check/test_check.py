"""Verdict, causes and update of `check`, on measurements that are simulated with a known cause."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forecache.calibration.check.answers import CheckAnswer
from forecache.calibration.check.causes import altered_system
from forecache.calibration.check.check import check
from forecache.calibration.check.measured import Measured
from forecache.hwprofiles.files import dump_yaml
from forecache.models.advice.answers import load_cases
from forecache.models.prediction.predict import SERVER_CPU, Prediction, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.sweeps import Case
from forecache.sim.errors import InputError

FIELDS: dict[str, Any] = {
    "host": "graviton3-c7g.4xlarge",
    "engine": "valkey",
    "engine_version": "8.0",
    "io_threads": 1,
    "workload": {"clients": 64, "pipeline": 4, "keys": 10_000, "command": "get"},
    "load_generator": {"tool": "memtier-benchmark", "threads": 4},
}
LARGE = {"workload": {**FIELDS["workload"], "pipeline": 1, "value_bytes": 4096}}


def simulated(
    fields: dict[str, Any], system: dict[str, Any] | None = None, **scenario: Any
) -> Prediction:
    """What is measured where the truth is another: nominal numbers, but for the changes."""
    [(case, known)] = load_cases({**FIELDS, **fields})
    changed = Case(case.given, case.scenario.model_copy(update=scenario))
    other: System = altered_system(known, **(system or {}))
    [found] = predict_cases([(changed, other)], seed=9, draws=0, replications=2, requests=8000)
    return found


def numbers(truth: Prediction) -> dict[str, Any]:
    """A file of what it measures."""
    results = [metrics.result for metrics in truth.nominal]
    generator_us = sum(each.generator_cpu_us_per_request for each in results) / len(results)
    names = ("throughput_rps", "p50_ms", "p99_ms", SERVER_CPU)
    return {name: truth.mean(name) for name in names} | {"generator_cpu_us": generator_us}


def checked(
    tmp_path: Path, measured: dict[str, Any], fields: dict[str, Any] | None = None, **how: Any
) -> CheckAnswer:
    file = tmp_path / "measured.yaml"
    file.write_text(dump_yaml(measured))
    return check({**FIELDS, **(fields or {})}, [file], **how)


@cache
def true() -> dict[str, Any]:
    return numbers(simulated({}))


def test_what_is_as_predicted_holds(tmp_path: Path) -> None:
    answer = checked(tmp_path, {**true(), "engine": "valkey", "engine_version": "8.0.6"})
    assert answer.holds
    assert (answer.causes, answer.differs, answer.outside) == ([], [], [])
    assert len(answer.measure_next) == 1
    [point] = answer.updated
    for row in answer.quantities:
        new = point.quantities[row.quantity]
        assert new.high / new.low < row.predicted.high / row.predicted.low
        assert new.contains(row.measured)


def test_a_slower_server(tmp_path: Path) -> None:
    truth = simulated({}, {"server_slower": 1.8})
    answer = checked(tmp_path, numbers(truth))
    assert not answer.holds
    first = answer.causes[0]
    assert (first.station, first.evidence) == ("main thread", "measured")
    assert first.explains > 0.95
    assert first.predicted["throughput_rps"] == pytest.approx(truth.mean("throughput_rps"), rel=0.1)
    assert answer.updated_for == "the scenario"
    [point] = answer.updated
    assert point.quantities[SERVER_CPU].contains(truth.mean(SERVER_CPU))


def test_a_server_too_slow_for_the_load_is_named_all_the_same(tmp_path: Path) -> None:
    offered = {"workload": {"arrival": "open_loop", "rate_rps": 180_000, "clients": 100}}
    measured = {"throughput_rps": 179_000, "p99_ms": 4.0, "server_cpu_us": 8.0}
    answer = checked(tmp_path, measured, offered)
    [first] = [cause for cause in answer.causes if cause.station == "main thread"]
    assert first.evidence == "measured"
    assert answer.to_dict()["causes"][0]["predicted"]["p99_ms"] is None


def test_a_slower_load_generator(tmp_path: Path) -> None:
    measured = numbers(simulated({}, {"generator_slower": 5.0}))
    answer = checked(tmp_path, measured)
    first = answer.causes[0]
    assert (first.station, first.evidence) == ("load generator", "measured")
    assert "at its limit" in first.what
    assert any("Not the server" in line for line in answer.ruled_out)
    # Without its CPU time it is one of those that may be.
    del measured["generator_cpu_us"]
    other = checked(tmp_path, measured)
    [cause] = [each for each in other.causes if each.station == "load generator"]
    assert cause.evidence == "possible"
    assert "generator_cpu_us" in cause.next_step


def test_a_network_at_its_limit(tmp_path: Path) -> None:
    truth = simulated(LARGE, {"network_gbit_per_s": 3.0})
    measured = {**numbers(truth), "network_limit_gbit_per_s": 3.0, "network_gbit_per_s": 2.98}
    answer = checked(tmp_path, measured, LARGE)
    assert [row.quantity for row in answer.outside][:1] == ["throughput_rps"]
    first = answer.causes[0]
    assert (first.station, first.evidence) == ("network", "measured")
    assert first.explains > 0.9
    assert answer.updated_for.endswith("with the bandwidth that was measured")
    [point] = answer.updated
    assert point.quantities["throughput_rps"].contains(truth.mean("throughput_rps"))


BURSTS = {
    "host": "r7g.2xlarge",  # 3.75 Gbit/s always, 15 while there is credit
    "workload": {**FIELDS["workload"], "pipeline": 8, "value_bytes": 4096},
}


def test_an_instance_that_used_its_burst(tmp_path: Path) -> None:
    truth = simulated(BURSTS, bandwidth="burst")
    answer = checked(tmp_path, {"throughput_rps": truth.mean("throughput_rps")}, BURSTS)
    assert not answer.holds
    first = answer.causes[0]
    assert (first.station, first.evidence) == ("network", "measured")
    assert "used its burst" in first.what
    assert "3.75 always and 15 while there is credit" in first.what
    assert first.explains > 0.95
    assert "`bandwidth: burst`" in first.next_step
    assert "29 minutes" in first.next_step
    [point] = answer.updated
    assert point.quantities["throughput_rps"].contains(truth.mean("throughput_rps"))
    # The measured number also shows it where the network carries more than requests and replies.
    [under] = [c for c in checked(tmp_path, numbers(truth), BURSTS).causes if "burst" in c.what]
    assert under.evidence == "measured"


def test_an_instance_whose_credit_was_used_up(tmp_path: Path) -> None:
    truth = simulated(BURSTS)
    measured = {"throughput_rps": truth.mean("throughput_rps")}
    answer = checked(tmp_path, measured, BURSTS | {"bandwidth": "burst"})
    [cause] = [each for each in answer.causes if "credit was used up" in each.what]
    assert cause.evidence == "measured"
    assert cause.explains > 0.95
    assert cause is answer.causes[0]


def test_a_network_far_from_its_limit_is_ruled_out(tmp_path: Path) -> None:
    measured = {**numbers(simulated({}, {"server_slower": 1.8})), "network_gbit_per_s": 0.5}
    answer = checked(tmp_path, {**measured, "network_limit_gbit_per_s": 10.0})
    assert any("Not the network" in line for line in answer.ruled_out)
    assert all(cause.station != "network" for cause in answer.causes)


def test_a_busy_neighbour(tmp_path: Path) -> None:
    truth = simulated({}, cores=1, other_busy_threads=1)
    answer = checked(tmp_path, numbers(truth))
    first = answer.causes[0]
    assert (first.station, first.evidence) == ("other programs", "measured")
    assert first.explains > 0.9
    assert "cores where" in first.what
    assert [cause.station for cause in answer.causes].count("other programs") == 1


def test_a_neighbour_that_takes_a_part(tmp_path: Path) -> None:
    truth = simulated({}, cores=1, cpu_quota_cores=0.45, cpu_quota_period_ms=6.0)
    first = checked(tmp_path, numbers(truth)).causes[0]
    assert (first.station, first.evidence) == ("other programs", "measured")
    assert first.explains > 0.7


def test_another_engine_is_never_a_confirmation(tmp_path: Path) -> None:
    answer = checked(tmp_path, {**true(), "engine": "redis", "engine_version": "7.0.15"})
    assert not answer.holds
    assert answer.outside == []
    [differs] = answer.differs
    assert (differs.scenario, differs.measured) == ("valkey 8.0", "redis 7.0.15")
    assert answer.causes[0].station == "conditions"
    assert answer.updated_for.endswith("under the measured conditions")


def test_a_version_that_no_profile_knows(tmp_path: Path) -> None:
    answer = checked(tmp_path, {**true(), "engine": "redis", "engine_version": "2.6.17"})
    assert not answer.holds
    assert answer.causes == []
    assert any("2.6" in line for line in answer.ruled_out)
    assert answer.updated == []


def test_a_version_newer_than_all_known_is_the_newest_known(tmp_path: Path) -> None:
    newest = {"engine_version": "9.1"}
    measured = numbers(simulated(newest)) | {"engine": "valkey", "engine_version": "9.4.2"}
    answer = checked(tmp_path, measured, newest)
    assert answer.holds
    assert answer.differs == []
    assert "valkey 9.4.2 is newer" in answer.warnings[0]
    assert not checked(tmp_path, measured).holds


def test_another_pipeline_is_simulated(tmp_path: Path) -> None:
    single = {"workload": {**FIELDS["workload"], "pipeline": 1}}
    answer = checked(tmp_path, {**numbers(simulated(single)), "pipeline": 1, "clients": 64})
    first = answer.causes[0]
    assert (first.station, first.evidence) == ("conditions", "measured")
    assert "pipeline was 1, the scenario says 4" in first.what
    assert first.explains > 0.95


def test_keys_that_a_random_fill_leaves_unset_are_the_same_data(tmp_path: Path) -> None:
    assert checked(tmp_path, {**true(), "keys": 9_500}).holds
    assert not checked(tmp_path, {**true(), "keys": 1_000}).holds


def test_misses_are_said(tmp_path: Path) -> None:
    answer = checked(tmp_path, {**true(), "miss_share": 0.6})
    assert any("60% of the GETs found nothing" in line for line in answer.warnings)


def test_one_point_of_a_sweep_updates_the_others(tmp_path: Path) -> None:
    sweep = {"io_threads": {"sweep": [1, 2]}}
    measured = numbers(simulated({}, {"server_slower": 1.25}))
    answer = checked(tmp_path, measured, sweep, at={"io_threads": "1"})
    assert answer.given == {"io_threads": 1}
    first, second = answer.updated
    assert (first.given, second.given) == ({"io_threads": 1}, {"io_threads": 2})
    row = next(row for row in answer.quantities if row.quantity == "throughput_rps")
    assert first.quantities["throughput_rps"].value < row.predicted.value
    untouched = checked(tmp_path, true(), sweep, at={"io_threads": 1}).updated[1]
    told = second.quantities["throughput_rps"].value
    assert told < untouched.quantities["throughput_rps"].value


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ({}, "found 2 points"),
        ({"io_threads": 7}, "found no point"),
        ({"clients": 1}, "found --at clients; valid is io_threads"),
    ],
)
def test_which_point_must_be_clear(at: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says):
        checked(tmp_path, true(), {"io_threads": {"sweep": [1, 2]}}, at=at)


def test_only_some_quantities(tmp_path: Path) -> None:
    measured = {**true(), "p99_ms": 50.0}
    assert not checked(tmp_path, measured).holds
    assert checked(tmp_path, measured, only=["throughput_rps", "p50_ms"]).holds
    with pytest.raises(InputError, match="--only p90_ms: it was not measured"):
        checked(tmp_path, measured, only=["p90_ms"])


def test_the_answer_is_plain_data(tmp_path: Path) -> None:
    answer = checked(tmp_path, numbers(simulated({}, {"server_slower": 1.8})))
    data = answer.to_dict()
    assert data["holds"] is False
    assert set(data["quantities"][0]) == {
        *("quantity", "predicted", "measured", "lowest", "highest", "repetitions"),
        *("ratio", "inside"),
    }
    assert set(data["quantities"][0]["predicted"]) == {"value", "low", "high"}
    assert data["causes"][0]["explains"] > 0.9


@pytest.mark.parametrize(("lrange_us", "same"), [(200.0, True), (900.0, False)])
def test_other_commands_than_the_mix_has(
    lrange_us: float, same: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_us = {"get": 1000.0 - lrange_us, "lrange": lrange_us}
    measured = Measured({SERVER_CPU: [8 * true()[SERVER_CPU]]}, command_times_us=times_us)
    monkeypatch.setattr(
        "forecache.calibration.check.check.read_measured", lambda *_, **__: measured
    )
    answer = checked(tmp_path, true())
    assert [each.field for each in answer.differs] == ([] if same else ["workload.mix"])
    # Of a gap to other commands nothing is made: no cause, no update.
    assert bool(answer.causes) == bool(answer.updated) == same
    assert any("lrange 90%" in step for step in answer.measure_next) != same


def test_info_cannot_tell_requests_that_call_several_commands(tmp_path: Path) -> None:
    calls = {"name": "pair", "share": 1.0, "transaction": {"get": 2}}
    workload = {"clients": 10, "keys": 1000, "mix": {"other": [calls]}}
    before = after = tmp_path / "info.txt"
    with pytest.raises(InputError, match="found a transaction, whose commands INFO counts one by"):
        checked(tmp_path, true(), {"workload": workload}, info=(before, after))
