"""What a user gives to `check`: read right, or refused in one sentence."""

import json
import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from forecache.calibration.check.measured import (
    QUANTITIES,
    Measured,
    measured_between,
    measured_by_memtier,
    read_measured,
)
from forecache.models.prediction.predict import SERVER_CPU
from forecache.models.scenario.schema import Scenario
from forecache.sim.errors import InputError
from verification.inputs.damage import damaged_text
from verification.inputs.readers import damaged

SAMPLES = Path(__file__).with_name("samples")
READERS = Path(__file__).parents[1] / "readers" / "samples"
INFO = SAMPLES / "info-before.txt", SAMPLES / "info-after.txt"
DAMAGES = 200


def scenario(**workload: Any) -> Scenario:
    data = {"host": "graviton3", "engine": "valkey", "workload": workload}
    return Scenario.model_validate(data)


GETS = scenario(command="get")


def test_plain_numbers() -> None:
    found = read_measured([SAMPLES / "measured.yaml"], GETS)
    assert found.values["throughput_rps"] == [118500, 118900.5, 118700]
    assert found.values["p50_ms"] == [0.84]
    mean = math.exp((math.log(0.91) + math.log(0.92)) / 2)
    assert found.value("p99_ms") == pytest.approx(mean)
    assert found.variance("p99_ms") == pytest.approx(math.log(0.92 / 0.91) ** 2 / 4)
    assert found.variance("p50_ms") == 0.0
    assert found.conditions == {
        "engine": "valkey",
        "engine_version": "8.0.1",
        "io_threads": 2,
        "workload.clients": 100,
        "workload.keys": 100_000,
    }
    assert (found.generator_cpu_us, found.network_allowance_exceeded) == (6.4, 12)
    assert found.miss_share == 0.25


def test_numbers_in_json(tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"throughput_rps": [1e5, 2e5], "server_cpu_us": 7}))
    assert read_measured([file], GETS).values == {
        "throughput_rps": [1e5, 2e5],
        "server_cpu_us": [7],
    }


def test_csv_and_info_of_one_real_run() -> None:
    found = read_measured([SAMPLES / "valkey-8.0-get.csv"], GETS, info=INFO)
    assert found.values["throughput_rps"] == [106241.70]
    assert (found.values["p50_ms"], found.values["p99_ms"]) == ([0.599], [17.103])
    before, after = (path.read_text() for path in INFO)

    def field(text: str, name: str) -> float:
        return float(text.split(f"\n{name}:")[1].split("\n")[0])

    def delta(name: str) -> float:
        return field(after, name) - field(before, name)

    # The first INFO is counted after its reply; the benchmark sent 400,000 GETs and two CONFIGs.
    commands = delta("total_commands_processed") - 1
    assert commands == 400_002
    cpu_us = (delta("used_cpu_user") + delta("used_cpu_sys")) / commands * 1e6
    assert found.values[SERVER_CPU] == [pytest.approx(cpu_us)]
    assert 1.5 < cpu_us < 4.0
    gbit_per_s = delta("total_net_output_bytes") / commands * 8 * 106241.70 / 1e9
    assert found.network_gbit_per_s == pytest.approx(gbit_per_s)
    assert found.miss_share == pytest.approx(20_321 / 400_000)
    assert found.conditions["engine_version"] == "8.0.1"
    assert found.conditions["engine"] == "valkey"


def test_each_row_of_a_command_is_a_repetition(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('"GET","1000.5"\n"SET","7"\n"GET key:__rand_int__","2000"\n')
    assert read_measured([file, file], GETS).values["throughput_rps"] == [1000.5, 2000] * 2
    sets = scenario(command="set")
    assert read_measured([file], sets).values["throughput_rps"] == [7]


def test_memtier_tells_what_it_was_told() -> None:
    text = (READERS / "memtier" / "format2.json").read_text()
    found = measured_by_memtier(text, file="m")
    assert found.conditions == {
        "load_generator.tool": "memtier-benchmark",
        "workload.clients": 32,
        "workload.pipeline": 1,
        "workload.value_bytes": 1024,
    }
    assert found.miss_share == pytest.approx(64715.58 / 81016.28)
    assert set(found.values) == set(QUANTITIES) - {SERVER_CPU}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found nothing; valid is a mapping"),
        ("[1, 2]", "found a list; valid is a mapping"),
        ("throughput_rps: -1", "field 'throughput_rps': found -1; valid is above 0"),
        ("throughput_rps: fast", "throughput_rps"),
        ("throughput_rps: []", "at least 1 item"),
        ("throughput_rps: .nan", "throughput_rps"),
        ("throughput_rsp: 1", "unknown field 'throughput_rsp'; did you mean 'throughput_rps'"),
        ("clients: 3", "at least one of throughput_rps"),
        ("p50_ms: 2\np99_ms: 1", "ascending"),
        ("throughput_rps: 1\nmiss_share: 1.5", "miss_share"),
        ('{"ALL STATS": {"Totals": {}}}', "missing"),
        ('"PING","1000"\n', "found results of 'PING'; valid is one of GET"),
        ("redis_version:7.0\ntotal_commands_processed:1\n", "--info-before"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "m"
    file.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        read_measured([file], GETS)
    assert str(file) in str(caught.value)


def test_a_tool_of_single_commands_measures_no_mix(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('"GET","1000.5"\n')
    with pytest.raises(InputError, match="memtier’s JSON"):
        read_measured([file], scenario(mix={"get": 0.8, "set": 0.2}))


def test_files_under_different_conditions_are_refused(tmp_path: Path) -> None:
    for name, clients in (("a", 10), ("b", 20)):
        (tmp_path / name).write_text(f"throughput_rps: 5\nclients: {clients}\n")
    with pytest.raises(InputError, match=r"found workload.clients 20; valid is 10"):
        read_measured([tmp_path / "a", tmp_path / "b"], GETS)


def test_nothing_given() -> None:
    with pytest.raises(InputError, match="found no measurement"):
        read_measured([], GETS)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("run_id:0", "run_id:1", "started anew"),
        ("total_commands_processed:1500020", "total_commands_processed:1100018", "no command"),
        ("total_commands_processed:1500020", "total_commands_processed:3", "at least 1.10002e"),
        ("total_commands_processed", "total_commands", "'total_commands_processed' is missing"),
        ("used_cpu_user:", "used_cpu_user:x", "as used_cpu_user"),
        ("valkey_version:8.0.1", "valkey_version:", "is a version"),
        ("db0:keys=", "db0:keys=-", "as keys of db0"),
    ],
)
def test_an_info_that_does_not_fit(old: str, new: str, says: str) -> None:
    before, after = (path.read_text() for path in INFO)
    assert old in after
    with pytest.raises(InputError, match=says):
        measured_between(before, after.replace(old, new), files=("b", "a"))


def check_result(found: Measured) -> None:
    """Only numbers that a measurement can have."""
    assert found.values
    for name, values in found.values.items():
        assert name in QUANTITIES
        assert values
        assert all(math.isfinite(value) and value > 0 for value in values)
    for value in (found.generator_cpu_us, found.main_active_us, found.network_gbit_per_s):
        assert value is None or (math.isfinite(value) and value > 0)
    assert found.miss_share is None or 0 <= found.miss_share <= 1


def is_read(read: Callable[[], Measured]) -> bool:
    """Whether something damaged is read; refused it must be in one sentence."""
    error = None
    try:
        check_result(read())
    except InputError as refusal:
        error = str(refusal)
    if error is not None:
        assert error
        assert "\n" not in error
    return error is None


@pytest.mark.parametrize(
    "sample",
    [
        SAMPLES / "measured.yaml",
        SAMPLES / "valkey-8.0-get.csv",
        READERS / "memtier" / "version2.json",
        READERS / "benchmark" / "redis-7.0.csv",
    ],
    ids=lambda path: path.name,
)
def test_damaged_files_are_refused_or_read(sample: Path, tmp_path: Path) -> None:
    draw, file = random.Random(16), tmp_path / "m"
    refused = accepted = 0
    for number in range(DAMAGES):
        text = damaged_text(sample.read_text(), draw).encode()
        file.write_bytes(text if number % 4 == 0 else damaged([sample.read_bytes()], draw))
        was_read = is_read(partial(read_measured, [file], GETS))
        accepted, refused = accepted + was_read, refused + (not was_read)
    assert refused > 0
    assert accepted > 0


@pytest.mark.parametrize("which", [0, 1], ids=["before", "after"])
def test_damaged_info_is_refused_or_read(which: int) -> None:
    draw = random.Random(17)
    texts = [path.read_text() for path in INFO]
    refused = accepted = 0
    for _ in range(DAMAGES):
        given = list(texts)
        whole = damaged([texts[which].encode()], draw)
        given[which] = whole.decode(errors="replace")
        read = partial(measured_between, *given, files=("b", "a"), throughput_rps=1e5)
        was_read = is_read(read)
        accepted, refused = accepted + was_read, refused + (not was_read)
    assert refused > 0
    assert accepted > 0


def test_time_of_commands_between_two_looks() -> None:
    before, after = (path.read_text() for path in INFO)
    before += "cmdstat_get:calls=10,usec=100,usec_per_call=10\n"
    after += (
        "cmdstat_get:calls=20,usec=300,usec_per_call=15\ncmdstat_setex:calls=1,usec=50\n"
        "cmdstat_config|get:calls=1,usec=999\n"
    )
    found = measured_between(before, after, files=("before", "after"))
    assert found.command_times_us == {"get": 200.0, "set": 50.0}
    with pytest.raises(InputError, match="after: found 'many' as usec of cmdstat_setex"):
        measured_between(before, after.replace("usec=50", "usec=many"), files=("before", "after"))
