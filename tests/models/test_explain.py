"""Where the time of a request goes: the steps add up to what the simulation spent."""

import math
from typing import Any, get_args

import pytest

from forecache.hwprofiles.quantity import Kind
from forecache.models.advice.answers import explain, load_cases
from forecache.models.breakdown.explain import server_cpu_time
from forecache.models.prediction.predict import predict_cases
from forecache.models.results.points import Stage

BASE: dict[str, Any] = {"host": "graviton3-c7g.4xlarge", "engine": "valkey"}


def stages(**fields: Any) -> tuple[list[Stage], Any]:
    [prediction] = predict_cases(
        load_cases({**BASE, **fields}), draws=0, replications=1, requests=20_000
    )
    return server_cpu_time(prediction).stages, prediction.nominal[0].result


def total(rows: list[Stage], thread: str | None = None) -> float:
    return math.fsum(row.us_per_request for row in rows if thread is None or row.thread == thread)


@pytest.mark.parametrize(
    "workload",
    [
        {"clients": 50},
        {"clients": 50, "command": "get", "value_bytes": 4096, "keys": 10_000_000},
        {"clients": 50, "pipeline": 16},
        {"clients": 5, "think_us": 400},
        {"clients": 4, "value_bytes": 150_000, "command": "get"},
        {"clients": 50, "arrival": "open_loop", "rate_rps": 60_000},
    ],
)
@pytest.mark.parametrize("version", ["8.0", "9.1"])
def test_the_steps_of_one_thread_add_up_to_its_time(version: str, workload: dict[str, Any]) -> None:
    rows, result = stages(engine_version=version, workload=workload)
    assert {row.thread for row in rows} == {"main"}
    assert total(rows) == pytest.approx(result.server_useful_cpu_us_per_request, rel=0.015)


@pytest.mark.parametrize(
    ("engine", "version"),
    [("valkey", "8.0"), ("valkey", "8.1"), ("valkey", "9.1"), ("redis", "8.2"), ("redis", "8.6")],
)
def test_the_steps_of_several_threads_stay_within_their_time(engine: str, version: str) -> None:
    rows, result = stages(
        engine=engine, engine_version=version, io_threads=4, workload={"clients": 200}
    )
    threads = result.io_thread_utilisation
    spent_by_io = sum(threads) / result.throughput_rps * 1e6
    assert total(rows, "I/O") == pytest.approx(spent_by_io, rel=0.05)
    spent_by_main = result.main_thread_utilisation / result.throughput_rps * 1e6
    # Turns of the main thread that find little belong to no request.
    assert 0.5 * spent_by_main < total(rows, "main") <= 1.01 * spent_by_main


def thread_kind(rows: list[Stage]) -> dict[str, str]:
    return {row.stage: row.thread for row in rows}


@pytest.mark.parametrize("do_reads", [False, True])
@pytest.mark.parametrize(
    ("io_threads", "workload"),
    [(2, {"clients": 50}), (8, {"clients": 400, "pipeline": 8}), (6, {"clients": 13})],
)
def test_the_steps_of_fork_join_threads_add_up_to_their_time(
    io_threads: int, workload: dict[str, Any], do_reads: bool
) -> None:
    """The main thread waits for the others, which is spinning, or it has work."""
    rows, result = stages(
        engine="redis",
        engine_version="7.0",
        io_threads=io_threads,
        io_threads_do_reads=do_reads,
        workload=workload,
    )
    spent_by_io = sum(result.io_thread_utilisation) / result.throughput_rps * 1e6
    assert total(rows, "I/O") == pytest.approx(spent_by_io, rel=0.03)
    spent_by_main = result.main_thread_utilisation / result.throughput_rps * 1e6
    waited = result.counters["join_wait_ps"] / result.completions / 1e6
    assert total(rows, "main") == pytest.approx(spent_by_main - waited, rel=0.03)


def test_io_threads_take_the_socket_work() -> None:
    alone, _ = stages(engine_version="8.0", workload={"clients": 200})
    helped, _ = stages(engine_version="8.0", io_threads=4, workload={"clients": 200})
    assert set(thread_kind(alone).values()) == {"main"}
    found = thread_kind(helped)
    assert found["read"] == found["write"] == found["parse"] == found["take over"] == "I/O"
    assert found["execute"] == found["hand over"] == found["look up ahead"] == "main"
    assert "look up ahead" not in thread_kind(alone)


@pytest.mark.parametrize(("version", "share"), [("8.1", 0.25), ("9.1", 1.0)])
def test_who_parses_a_pipeline_depends_on_the_engine(version: str, share: float) -> None:
    """Valkey 8 has an I/O thread parse the first of its four commands."""
    rows, result = stages(
        engine_version=version, io_threads=3, workload={"clients": 300, "pipeline": 4}
    )
    offloaded = 1.0 - result.counters["inline_reads"] / result.counters["reads"]
    assert offloaded > 0.5
    parsing = {row.thread: row.us_per_request for row in rows if row.stage == "parse"}
    parsed = parsing["I/O"] / sum(parsing.values())
    assert parsed == pytest.approx(share * offloaded, abs=0.02)


def test_what_the_main_thread_does_by_itself_beside_io_threads_is_its_own() -> None:
    """With few events a turn Valkey 8 serves some clients without its I/O threads."""
    rows, result = stages(
        engine_version="8.0", io_threads=2, workload={"clients": 15, "pipeline": 2}
    )
    inline = result.counters["inline_writes"] / result.counters["writes"]
    assert 0.05 < inline < 0.95
    writing = {row.thread: row.us_per_request for row in rows if row.stage == "write"}
    assert writing["main"] / sum(writing.values()) == pytest.approx(inline, abs=0.01)


@pytest.mark.parametrize(("pipeline", "share"), [(8, 1.0), (16, 1.0), (32, 0.5)])
def test_what_an_io_thread_does_not_look_ahead_to_the_main_thread_parses(
    pipeline: int, share: float
) -> None:
    rows, _ = stages(
        engine="redis",
        engine_version="8.6",
        io_threads=3,
        workload={"clients": 60, "pipeline": pipeline},
    )
    parsing = {row.thread: row.us_per_request for row in rows if row.stage == "parse"}
    assert parsing["I/O"] / sum(parsing.values()) == pytest.approx(share, abs=0.02)


def test_looking_ahead_shortens_the_wait_for_memory() -> None:
    def waiting(**fields: Any) -> float:
        rows, _ = stages(
            engine_version="8.1", io_threads=8, workload={"clients": 400, "keys": 50_000_000},
            **fields,
        )  # fmt: skip
        found = {row.stage: row.us_per_request for row in rows}
        return found.get("wait for memory", 0.0) + found.get("look up ahead", 0.0)

    assert waiting() < 0.6 * waiting(prefetch_batch=0)


@pytest.mark.usefixtures("short_runs")
def test_explain_names_the_origin_of_every_number() -> None:
    answer = explain({**BASE, "workload": {"clients": 20}})
    assert answer.points[0].stages
    names = [number.name for number in answer.numbers]
    assert len(names) == len(set(names))
    for prefix in ("engine.", "host.", "load_generator."):
        assert any(name.startswith(prefix) for name in names)
    for number in answer.numbers:
        assert number.kind in get_args(Kind)
        assert number.source or number.method or number.kind == "derived"
        assert number.value is not None or number.low is not None


def test_threads_that_share_cores_spend_no_negative_time() -> None:
    """Who waits for the slowest thread without a core does not spend CPU time on that."""
    fields = {
        "host": "m6i.large",
        "engine_version": "7.2",
        "io_threads": 3,
        "workload": {"clients": 51, "arrival": "open_loop", "rate_rps": 21_200},
    }
    [prediction] = predict_cases(
        load_cases({**BASE, **fields}), draws=0, replications=1, requests=2_000
    )
    spent = server_cpu_time(prediction)
    assert spent.server_cpu_us_per_request is not None
    assert 0 < spent.server_cpu_us_per_request < 10
    assert all(stage.us_per_request > 0 for stage in spent.stages)
