"""Reading and checking files: what is wrong becomes one sentence, what is right survives."""

import pickle
import stat
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, model_validator

from forecache.hwprofiles.files import (
    FieldError,
    as_written,
    did_you_mean,
    dump_yaml,
    parse,
    read_text,
    read_yaml,
    write_text_atomic,
)
from forecache.sim.errors import InputError


class Sweep(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sweep: list[int]


class Workload(BaseModel):
    model_config = ConfigDict(extra="forbid")
    clients: int = Field(gt=0)
    pipeline: int = 1
    value_bytes: float | None = None


class Scenario(BaseModel):
    model_config = ConfigDict(extra="forbid")
    host: str
    io_threads: int | Sweep = 1
    workload: Workload
    stages: list[Workload] = []


def scenario(**changes: Any) -> dict[str, Any]:
    return {"host": "graviton3", "workload": {"clients": 50}, **changes}


def problem(data: object) -> str:
    with pytest.raises(InputError) as caught:
        parse(Scenario, data, file="s.yaml")
    return str(caught.value)


def test_good_data_becomes_the_model() -> None:
    parsed = parse(Scenario, scenario(io_threads={"sweep": [1, 2]}), file="s.yaml")
    assert parsed.io_threads == Sweep(sweep=[1, 2])


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (scenario(workload={"clientz": 50}), ["s.yaml", "'workload.clientz'", "'clients'"]),
        (scenario(hots="a"), ["unknown field 'hots'", "'host'"]),
        ({"workload": {"clients": 1}}, ["'host'", "missing"]),
        (scenario(workload={"clients": 0}), ["'workload.clients'", "found 0", "above 0"]),
        (scenario(workload={"clients": "many"}), ["'many'", "integer"]),
        (scenario(stages=[{"clients": 1}, {"clients": -1}]), ["'stages[1].clients'", "-1"]),
        (scenario(io_threads={"sweeep": [1]}), ["'io_threads.sweeep'", "'sweep'"]),
        (scenario(io_threads={"sweep": ["x"]}), ["'io_threads.sweep[0]'", "'x'"]),
        (scenario(workload=7), ["'workload'", "found 7"]),
        ([], ["the top level", "[]"]),
    ],
)
def test_a_problem_names_file_field_found_and_valid(data: object, parts: list[str]) -> None:
    message = problem(data)
    assert message.startswith("s.yaml: ")
    for part in parts:
        assert part in message
    assert "\n" not in message


def test_a_check_across_fields_names_the_field_at_fault() -> None:
    class Span(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def _ordered(self) -> "Span":
            if self.low > self.high:
                raise FieldError("low", found=self.low, valid=f"at most high ({self.high})")
            return self

    class Outer(BaseModel):
        spans: list[Span]

    with pytest.raises(InputError) as caught:
        parse(Outer, {"spans": [{"low": 1, "high": 2}, {"low": 3, "high": 2}]}, file="s.yaml")
    assert str(caught.value) == "s.yaml: field 'spans[1].low': found 3; valid is at most high (2)."


def test_further_problems_are_counted() -> None:
    assert "1 more problem in this file" in problem(scenario(workload={"clients": 0, "x": 1}))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a: [1, 2\nb: 3\n", ["line 2"]),
        ("a: 1\nb: 2\na: 3\n", ["line 3", "'a' is given twice"]),
        ("outer:\n  k: 1\n  k: 2\n", ["line 3", "'k'"]),
        ("", ["found nothing"]),
        ("- a\n- b\n", ["found a list"]),
        ("a: !!python/object:os.system {}\n", ["line 1"]),
        ("1: a\n", ["field 1"]),
        ("a: 2026-13-45\n", ["YAML"]),
        ("a: \x00\n", ["YAML"]),
        ("? [a, b]\n: 1\n", ["f.yaml"]),
    ],
)
def test_bad_yaml_is_named_with_its_line(tmp_path: Path, text: str, parts: list[str]) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_yaml(file)
    for part in [str(file), *parts]:
        assert part in str(caught.value)


def test_unreadable_files_are_input_errors(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"abc\xff\xfe")
    for path, part in ((tmp_path / "none", "no such"), (tmp_path, "folder"), (binary, "byte 3")):
        with pytest.raises(InputError, match=part):
            read_text(path)


@given(st.binary(max_size=80))
def test_any_bytes_give_a_mapping_or_an_input_error(tmp_path_factory: Any, content: bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "f.yaml"
    file.write_bytes(content)
    try:
        data, message = read_yaml(file), ""
    except InputError as error:
        data, message = {}, str(error)
    assert isinstance(data, dict)
    assert not message or str(file) in message


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), plain, max_size=5))
def test_dumped_yaml_reads_back(data: dict[str, Any]) -> None:
    assert yaml.safe_load(dump_yaml(data)) == data


@given(plain)
def test_any_data_gives_a_model_or_one_sentence(data: object) -> None:
    try:
        parse(Scenario, data, file="s.yaml")
        message = ""
    except InputError as error:
        message = str(error)
    assert not message or message.startswith("s.yaml: ")


def test_dump_keeps_order_and_writes_no_anchors() -> None:
    shared = {"value": 1, "unit": "ns"}
    text = dump_yaml({"b": shared, "a": shared})
    assert text == "b: {value: 1, unit: ns}\na: {value: 1, unit: ns}\n"


def test_write_replaces_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "new" / "out.yaml"
    write_text_atomic(target, "one\n")
    write_text_atomic(target, "two µs\n")
    assert target.read_text(encoding="utf-8") == "two µs\n"
    assert [file.name for file in target.parent.iterdir()] == ["out.yaml"]
    assert stat.S_IMODE(target.stat().st_mode) & 0o600 == 0o600


def test_write_failure_is_an_input_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="can't be written"):
        write_text_atomic(tmp_path / "file" / "below", "text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="can't be written"):
        write_text_atomic(tmp_path / "folder", "text")
    assert {file.name for file in tmp_path.iterdir()} == {"file", "folder"}


def test_did_you_mean_prefers_close_names() -> None:
    assert did_you_mean("Gravitn3", ["graviton3", "icelake"]) == "did you mean 'graviton3'?"
    assert did_you_mean("zzz", ["b", "a"]) == "valid are a, b."


class Cat(BaseModel):
    model_config = ConfigDict(extra="forbid")
    animal: Literal["cat"]
    lives: list[int] = Field(default=[9], min_length=1, max_length=2)


class Dog(BaseModel):
    model_config = ConfigDict(extra="forbid")
    animal: Literal["dog"]


class Home(BaseModel):
    pets: list[Annotated[Cat | Dog, Field(discriminator="animal")]]


@pytest.mark.parametrize(
    ("pet", "message"),
    [
        ({"animal": "dgo"}, "field 'pets[1].animal': found 'dgo'; did you mean 'dog'?"),
        ({"animal": "x"}, "field 'pets[1].animal': found 'x'; valid are cat, dog."),
        ({}, "the field 'pets[1].animal' is missing."),
        (7, "field 'pets[1]': found 7; valid is a mapping."),
        (
            {"animal": "cat", "lives": []},
            "field 'pets[1].lives': found []; valid is at least 1 item.",
        ),
        (
            {"animal": "cat", "lives": [1, 2, 3]},
            "field 'pets[1].lives': found [1, 2, 3]; valid is at most 2 items.",
        ),
    ],
)
def test_alternatives_and_lists_are_told_in_plain_words(pet: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(Home, {"pets": [{"animal": "dog"}, pet]}, file="h.yaml")
    assert str(caught.value) == f"h.yaml: {message}"


def test_a_fault_of_a_field_passes_from_one_process_to_another() -> None:
    fault = FieldError("slo.p99_ms", found=-1, valid="a number above 0")
    copy = pickle.loads(pickle.dumps(fault))
    assert (str(copy), copy.field, copy.found) == (str(fault), "slo.p99_ms", -1)


class Typed(BaseModel):
    name: str = ""
    value_bytes: int | list[int] = 0
    data_gb: float = 0.0
    duration_s: float = 0.0
    think_us: float = 0.0
    rate_rps: float = 0.0
    cpu_quota_cores: float = 0.0
    gbit_per_s: float = 0.0
    share: float = 0.0
    by_name: dict[str, float] = {}
    threads: list[int] | Literal["automatic"] = "automatic"
    inner: list[Workload] = []


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ({"value_bytes": "1.5Ki"}, 1536),
        ({"value_bytes": "1_000kb"}, 1_024_000),
        ({"value_bytes": "2M"}, 2_000_000),
        ({"data_gb": "500MB"}, 0.5),
        ({"data_gb": "1GiB"}, 1.073741824),
        ({"duration_s": "1.5h"}, 5400),
        ({"duration_s": "250 ms"}, 0.25),
        ({"think_us": "2ms"}, 2000),
        ({"think_us": "3"}, 3),
        ({"rate_rps": "1.2M/s"}, 1_200_000),
        ({"rate_rps": "50krps"}, 50_000),
        ({"cpu_quota_cores": "1500m"}, 1.5),
        ({"gbit_per_s": "500Mbps"}, 0.5),
        ({"share": "0.5%"}, 0.005),
        ({"by_name": {"r7g.large": "2k"}}, {"r7g.large": 2000}),
        # What is of something else, or takes text, stays as it is.
        ({"value_bytes": "2ms"}, "2ms"),
        ({"share": "10m"}, "10m"),
        ({"name": "50k"}, "50k"),
    ],
)
def test_a_number_with_a_unit_is_one_in_the_unit_of_its_field(
    written: dict[str, Any], number: object
) -> None:
    [(field, _)] = written.items()
    assert as_written(Typed, written) == {field: number}


def test_lists_and_single_values_stand_for_each_other() -> None:
    assert as_written(Typed, {"share": ["1%", 0.5]}) == {"share": {"sweep": [0.01, 0.5]}}
    assert as_written(Typed, {"share": {"sweep": ["1%"]}}) == {"share": {"sweep": [0.01]}}
    assert as_written(Typed, {"value_bytes": ["1k"]}) == {"value_bytes": [1000]}
    assert as_written(Typed, {"threads": 4}) == {"threads": [4]}
    assert as_written(Typed, {"threads": "auto"}) == {"threads": "automatic"}
    inner = as_written(Typed, {"inner": {"value_bytes": "1kb", "clients": [1, 2]}})["inner"]
    assert inner == [{"value_bytes": 1024, "clients": {"sweep": [1, 2]}}]


@given(plain)
def test_what_is_written_in_any_way_is_read_without_an_error(data: object) -> None:
    written = dict.fromkeys((*Typed.model_fields, "unknown"), data)
    assert as_written(Typed, written)["unknown"] == data


def test_an_unknown_name_gets_few_names() -> None:
    known = [f"c7g.{size}xlarge" for size in range(100)]
    assert did_you_mean("c7g.20xlrage", known).startswith("did you mean 'c7g.20xlarge' or ")
    told = did_you_mean("laptop", known, listed_by="`forecache catalog`")
    assert told.count("'") == 6
    assert told.endswith("; `forecache catalog` lists all 100.")
    assert did_you_mean("hit_rate", ["trace", "keys"]) == "valid are keys, trace."
    assert did_you_mean("value_size", ["value_bytes", "keys"]) == "did you mean 'value_bytes'?"
    assert did_you_mean("version", ["engine_version"]) == "did you mean 'engine_version'?"
