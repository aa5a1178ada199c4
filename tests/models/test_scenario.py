"""Scenarios: what they expand to, and one clear sentence for each mistake."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.scenario.workload import UniformSizes, Workload
from forecache.sim.errors import InputError

BASE: dict[str, Any] = {"host": "graviton3", "engine": "valkey"}


def with_workload(**fields: Any) -> dict[str, Any]:
    return {**BASE, "workload": fields}


def problem(data: dict[str, Any]) -> str:
    """The message of the one error a scenario causes."""
    with pytest.raises(InputError) as caught:
        expand(data, file="mine.yaml", schema=Scenario)
    message = str(caught.value)
    assert message.startswith("mine.yaml: ")
    assert "\n" not in message
    return message


def test_sweeps_expand_to_their_product_in_order() -> None:
    data = {
        **BASE,
        "io_threads": {"sweep": [1, 4]},
        "workload": {"pipeline": {"sweep": [1, 8, 64]}, "clients": 20},
    }
    cases = expand(data, file="mine.yaml", schema=Scenario)
    assert [case.given for case in cases] == [
        {"io_threads": threads, "pipeline": pipeline}
        for threads in (1, 4)
        for pipeline in (1, 8, 64)
    ]
    for case in cases:
        assert case.scenario.io_threads == case.given["io_threads"]
        assert case.scenario.workload.pipeline == case.given["pipeline"]
        assert case.scenario.workload.clients == 20


def test_a_sweep_under_a_key_that_is_no_string_is_refused_by_its_place() -> None:
    mix = {"get": 0.5, "mget": {"share": 0.5, "keys": 10, 3: {"sweep": [1, 2]}}}
    assert "workload.mix.mget[3]" in problem(with_workload(mix=mix))


def test_a_sweep_can_be_of_any_schema() -> None:
    class Fleet(BaseModel):
        machines: int
        name: str = "fleet"

    cases = expand({"machines": {"sweep": [3, 5]}}, file="mine.yaml", schema=Fleet)
    assert [(case.given, case.scenario) for case in cases] == [
        ({"machines": 3}, Fleet(machines=3)),
        ({"machines": 5}, Fleet(machines=5)),
    ]
    with pytest.raises(InputError, match=r"mine.yaml: .*machines.* found 'few'"):
        expand({"machines": {"sweep": [3, "few"]}}, file="mine.yaml", schema=Fleet)


def test_a_rate_without_arrival_is_that_of_an_open_loop() -> None:
    assert Workload.model_validate({"rate_rps": 100.0}).arrival == "open_loop"
    assert Workload.model_validate({"rate_rps": None}).arrival == "closed_loop"


def test_without_a_sweep_there_is_one_case() -> None:
    [case] = expand(BASE, file="mine.yaml", schema=Scenario)
    assert case.given == {}
    assert case.scenario == Scenario(host="graviton3", engine="valkey")


def test_words_and_mappings_can_be_swept_and_fields_deep_inside() -> None:
    popularities = ["uniform", {"zipf": 0.99}]
    data = {
        **with_workload(popularity={"sweep": popularities}),
        "host": {"sweep": ["graviton3", "graviton4"]},
        "load_generator": {"threads": {"sweep": [2]}},
    }
    cases = expand(data, file="mine.yaml", schema=Scenario)
    assert [case.given["popularity"] for case in cases] == popularities * 2
    assert {case.scenario.host for case in cases} == {"graviton3", "graviton4"}
    assert all(case.given["load_generator.threads"] == 2 for case in cases)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({**BASE, "io_threads": {"sweep": []}}, ["io_threads.sweep", "[]", "a list of values"]),
        ({**BASE, "io_threads": {"sweep": 4}}, ["io_threads.sweep", "found 4", "list"]),
        ({**BASE, "io_threads": {"sweep": [1, 2, 1]}}, ["io_threads.sweep", "twice"]),
        ({**BASE, "io_threads": {"sweep": [1, 0]}}, ["io_threads", "found 0"]),
        ({"sweep": [1, 2]}, ["top level"]),
        (
            {
                **with_workload(clients={"sweep": list(range(1, 200))}),
                "io_threads": {"sweep": list(range(1, 200))},
            },
            ["39601 points", "10000"],
        ),
        ({**BASE, "io_thread": 4}, ["'io_thread'", "did you mean 'io_threads'"]),
        (with_workload(piepline=4), ["'workload.piepline'", "'pipeline'"]),
        ({"engine": "valkey"}, ["'host'", "missing"]),
        ({**BASE, "io_threads": -1}, ["'io_threads'", "found -1"]),
        ({**BASE, "io_threads": "many"}, ["'io_threads'", "'many'", "integer"]),
        (with_workload(value_bytes=-5), ["'workload.value_bytes'", "found -5"]),
        (with_workload(keys=0), ["'workload.keys'", "found 0"]),
        (with_workload(mix={"get": 0.5, "set": 0.6}), ["'workload.mix'", "add up to 1", "1.1"]),
        (with_workload(mix={"get": 1.5, "set": -0.5}), ["'workload.mix", "1.5"]),
        (with_workload(mix={"get": 1.0}, command="get"), ["command or mix"]),
        (with_workload(rate_rps=100.0, arrival="closed_loop"), ["rate_rps", "open_loop"]),
        (with_workload(arrival="open_loop"), ["rate_rps", "open_loop"]),
        (
            with_workload(arrival="open_loop", rate_rps=1e5, pipeline=4),
            ["pipeline 1", "open_loop"],
        ),
        (with_workload(rate_rps=float("nan"), arrival="open_loop"), ["'workload.rate_rps'"]),
        (with_workload(clients=100_000, pipeline=1000), ["clients times pipeline", "100000000"]),
        (
            with_workload(value_bytes={"distribution": "uniform", "low": 9, "high": 3}),
            ["low not above high", "9", "3"],
        ),
        (
            with_workload(value_bytes={"values": [1, 2], "weights": [1.0]}),
            ["as many weights as values"],
        ),
        (with_workload(value_bytes={"values": [1], "weights": [0.0]}), ["weights", "0.0"]),
        (with_workload(value_bytes={"values": [1], "weights": [float("inf")]}), ["weights"]),
        (with_workload(value_bytes={"value": [1]}), ["'workload.value_bytes.value'", "'values'"]),
        (
            with_workload(value_bytes={"distribution": "gaussian", "mean": 5}),
            ["'workload.value_bytes'", "distribution uniform or weighted"],
        ),
        (
            with_workload(value_bytes="big"),
            ["'workload.value_bytes'", "'big'", "a whole number of bytes, such as"],
        ),
        (with_workload(popularity={"zipf": -1}), ["'workload.popularity.zipf'", "-1"]),
        (with_workload(popularity={"zip": 1}), ["'workload.popularity'", "zipf", "hot_set"]),
        (with_workload(popularity="normal"), ["'workload.popularity'", "'normal'", "'uniform'"]),
        (
            with_workload(popularity={"hot_set": {"keys": 2, "requests": 0.9}}),
            ["'workload.popularity.hot_set.keys'", "found 2"],
        ),
        ({**BASE, "engine_version": 8.1}, ["'engine_version'", "8.1", "in quotes"]),
        ({**BASE, "slo": {}}, ["'slo'", "at least one of p50_ms"]),
        ({**BASE, "slo": {"p99_ms": 0}}, ["'slo.p99_ms'", "found 0"]),
        (
            with_workload(arrival="open_loop"),
            ["'workload.rate_rps': found nothing; valid is one of"],
        ),
        (
            with_workload(mix={"get": 1.0}, streams={"entries": 5}),
            ["'workload.streams': found", "streams only with a command on them in mix"],
        ),
        ({**BASE, "tls": "yes"}, ["'tls': found 'yes'", "true or false without quotes"]),
        (
            {**BASE, "tls": True, "transport": "unix_socket"},
            ["'transport': found 'unix_socket'; valid is 'tcp' with tls"],
        ),
        ({**BASE, "workload": 7}, ["'workload': found 7; valid is a mapping"]),
        ({**BASE, "transport": "udp"}, ["'transport'", "'udp'", "'tcp' or 'unix_socket'"]),
    ],
)
def test_a_mistake_is_one_sentence_with_file_field_and_what_is_valid(
    data: dict[str, Any], told: list[str]
) -> None:
    message = problem(data)
    for words in told:
        assert words in message


@pytest.mark.parametrize(
    ("fields", "share"),
    [
        ({}, 0.8),
        ({"command": "get"}, 1.0),
        ({"command": "set"}, 0.0),
        ({"mix": {"get": 0.3, "set": 0.7}}, 0.3),
    ],
)
def test_the_share_of_gets(fields: dict[str, Any], share: float) -> None:
    assert Workload.model_validate(fields).get_fraction == share


@given(low=st.integers(0, 5000), width=st.integers(0, 5000))
def test_uniform_sizes_keep_their_mean_and_their_bounds(low: int, width: int) -> None:
    workload = Workload(value_bytes=UniformSizes(distribution="uniform", low=low, high=low + width))
    assert sum(weight for _, weight in workload.sizes) == pytest.approx(1.0)
    assert all(low <= size <= low + width for size, _ in workload.sizes)
    mean = sum(size * weight for size, weight in workload.sizes)
    assert mean == pytest.approx(low + width / 2, abs=0.51)
    assert len(workload.sizes) <= 16


def test_weights_are_shares() -> None:
    workload = Workload.model_validate({"value_bytes": {"values": [10, 1000], "weights": [3, 1]}})
    assert workload.sizes == [(10, 0.75), (1000, 0.25)]


@pytest.mark.parametrize(
    ("threads", "clients", "expected"), [(None, 650, 16), (None, 3, 3), (8, 650, 8), (8, 2, 2)]
)
def test_the_generator_has_no_thread_without_a_client(
    threads: int | None, clients: int, expected: int
) -> None:
    [case] = expand(
        {**with_workload(clients=clients), "load_generator": {"threads": threads}},
        file="x",
        schema=Scenario,
    )
    assert case.scenario.generator_threads == expected


def test_a_unix_socket_means_one_host() -> None:
    [tcp], [unix] = (
        expand({**BASE, "transport": transport}, file="x", schema=Scenario)
        for transport in ("tcp", "unix_socket")
    )
    assert not tcp.scenario.same_host
    assert unix.scenario.same_host
