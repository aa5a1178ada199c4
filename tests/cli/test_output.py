"""What is printed: strict JSON for programs, tables for people, from the same result."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import forecache
from forecache import cli, verbs
from forecache.calibration.validate.comparison import ComparedPoint, summary_of
from forecache.models.advice.node_answers import (
    Explained,
    ExplainedPoint,
    Recommended,
    Shown,
    Simulated,
)
from forecache.models.advice.recommend import SloVerdict
from forecache.models.engines.profile import WORK_NAMES, EngineProfile
from forecache.models.results.points import NextBottleneck, Point, Stage
from forecache.output import to_json
from forecache.sim.errors import InfeasibleError
from forecache.sim.plain import plain
from tests.made_points import (
    PROVENANCE,
    about,
    made_head,
    made_point,
    made_recommendation,
    made_sensitivity,
)
from tests.reports.study_fixture import calibration, study, validation

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(Path("a/b")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(values)
def test_every_result_is_strict_json(value: Any) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    assert json.loads(to_json(value), parse_constant=refuse) == plain(value)


def test_lines_of_a_file_end_without_spaces(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["memory", str(checkout / "examples" / "memory.yaml")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("Used memory" in line for line in lines)
    assert not [line for line in lines if line.endswith(" ")]


def test_numbers_of_numpy_and_unknown_ones() -> None:
    result = {"a": np.float64(1.5), "b": np.arange(3), "c": math.nan, "d": (np.int64(2), math.inf)}
    assert json.loads(to_json(result)) == {"a": 1.5, "b": [0, 1, 2], "c": None, "d": [2, None]}


def point(io_threads: int, throughput_rps: float) -> Point:
    return made_point(
        io_threads,
        throughput_rps=about(throughput_rps),
        **dict.fromkeys(("mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms"), about(0.4)),
        main_thread_utilisation=0.9,
        io_thread_utilisation=[0.5] * (io_threads - 1),
        server_cpu_us_per_request=about(3.0),
        spinning_cpu_us_per_request=0.5,
        bottleneck="main thread",
        next_bottleneck=NextBottleneck("network", 900_000.0),
        verdict="SATURATED",
        stages=[Stage("read", "I/O", 1.0), Stage("execute", "main", 0.5)],
    )


def with_points(*points: Point) -> dict[str, Any]:
    return {**made_head(), "points": list(points), "provenance": PROVENANCE}


ALIKE = {
    "main_thread_utilisation": None,
    "io_thread_utilisation": [0.97, 0.99],
    "bottleneck": "worker threads",
}
POINTS = [point(1, 250_000.0), point(4, 734_000.0)]
PREDICTED = with_points(*POINTS)
WORKERS = with_points(*(replace(each, **ALIKE) for each in POINTS))
WARNED = with_points(replace(POINTS[0], warnings=["all is assumed"]))
LIMITED = with_points(
    replace(
        POINTS[0],
        bottleneck="network",
        network_limits={"bandwidth": 0.4, "packets": 0.99, "one connection": 0.0},
        interrupt_utilisation=0.31,
    )
)
RECOMMENDED = Recommended(**PREDICTED, recommendation=made_recommendation())


def explaining(answer: dict[str, Any], shown: Shown | None = None) -> Explained:
    points = [ExplainedPoint(**vars(each), latency_breakdown=None) for each in answer["points"]]
    measure_next = made_recommendation().measure_next
    return Explained(
        **(answer | {"points": points}),
        shown=shown or Shown(0, recommended=False, closest=False),
        timeline=None,
        measure_next=measure_next,
        sensitivity=None,
        numbers=[],
    )


_COMPARED = ComparedPoint(
    index=0,
    given={"io_threads": 3},
    role="validation",
    observed={"throughput_rps": 500_000.0},
    predicted={"throughput_rps": about(510_000.0)},
    band="saturated",
)
VALIDATED = replace(
    validation(), points=[_COMPARED], summary=summary_of([_COMPARED], ["throughput_rps"])
)


@pytest.mark.parametrize(
    ("verb", "arguments", "result", "expected"),
    [
        ("simulate", ["x.yaml"], Simulated(**PREDICTED), "saturated"),
        ("recommend", ["x.yaml"], RECOMMENDED, "io-threads 4"),
        ("explain", ["x.yaml"], explaining(PREDICTED), "execute"),
        ("explain", ["x.yaml"], explaining(PREDICTED), "profile graviton3 itself: ±21%"),
        ("explain", ["x.yaml"], explaining(LIMITED), "Limited by: network (packets)"),
        (
            "explain",
            ["x.yaml"],
            explaining(LIMITED),
            "Network: packets 99%, bandwidth 40% of 10 Gbit/s\n",
        ),
        ("explain", ["x.yaml"], explaining(LIMITED), "Interrupt cores: 31%"),
        (
            "explain",
            ["x.yaml"],
            explaining(LIMITED),
            "(2 GB/s), which makes it 2.0% slower than idle",
        ),
        (
            "simulate",
            ["x.yaml"],
            Simulated(**WORKERS),
            "work, load: how busy the worker threads and load",
        ),
        (
            "recommend",
            ["x.yaml"],
            replace(RECOMMENDED, points=WORKERS["points"]),
            "work, load: how busy the worker threads and",
        ),
        ("explain", ["x.yaml"], explaining(WORKERS), "Limited by: worker threads"),
        ("simulate", ["x.yaml"], Simulated(**WARNED), "! all is assumed"),
        ("explain", ["x.yaml"], explaining(WARNED), "! all is assumed"),
        ("validate", ["x.yaml"], VALIDATED, "synthetic dataset"),
        ("validate", ["x.yaml"], VALIDATED, "all points: saturated"),
        ("study", ["x.yaml"], study(), "Synthetic study"),
    ],
)
def test_a_result_is_printed_for_people_and_for_programs(
    verb: str,
    arguments: list[str],
    result: Any,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verbs, verb, lambda *_, **__: result)
    assert cli.main([verb, *arguments]) == 0
    printed = capsys.readouterr()
    assert expected in printed.out
    assert printed.err == ""
    assert cli.main([verb, *arguments, "--json"]) == 0
    told = result if isinstance(result, dict) else result.to_dict()
    assert json.loads(capsys.readouterr().out) == told


@pytest.mark.parametrize("verb", ["memory", "cost"])
def test_what_a_function_returns_is_what_json_prints(
    verb: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(checkout / "examples" / f"{verb}.yaml")
    answer = getattr(forecache, verb)(path).to_dict()
    assert cli.main([verb, path, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    for each in (answer, printed):
        each.get("provenance", {}).pop("date", None)
    assert printed == answer


MISSED = replace(
    RECOMMENDED,
    recommendation=made_recommendation(
        setting=None,
        closest={"io_threads": 4},
        slo=SloVerdict(
            p99_ms=0.1,
            met=False,
            probability=0.2,
            asked_probability=0.95,
            asked="p99 at most 0.1 ms",
            reached="p99 0.4 ms",
        ),
    ),
)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_missed_objective_keeps_the_answer_and_the_exit_code(
    as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def infeasible(*_: Any, **__: Any) -> None:
        raise InfeasibleError("nothing meets it; io-threads 4 is closest.", result=MISSED)

    monkeypatch.setattr(verbs, "recommend", infeasible)
    assert cli.main(["recommend", "x.yaml", *(["--json"] if as_json else [])]) == 3
    printed = capsys.readouterr()
    assert printed.err == "forecache: error: nothing meets it; io-threads 4 is closest.\n"
    if as_json:
        assert json.loads(printed.out) == MISSED.to_dict()
        return
    assert (
        printed.out.splitlines()[0] == "No setting meets the objective; io-threads 4 comes closest"
    )
    assert "Run io-threads" not in printed.out
    assert "one thread reads every socket" in printed.out


def explained(
    result: Explained,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    monkeypatch.setattr(verbs, "explain", lambda *_, **__: result)
    assert cli.main(["explain", "x.yaml"]) == 0
    return capsys.readouterr().out.splitlines()


def test_explain_details_the_recommended_setting_and_marks_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = explaining(PREDICTED, Shown(1, recommended=True, closest=False))
    lines = explained(result, monkeypatch, capsys)
    marked = [line for line in lines if line.startswith("▶")]
    assert marked == ["▶ io-threads 4: 3.00 µs of CPU time, limited by main thread"]
    assert "  io-threads 1: 3.00 µs of CPU time, limited by main thread" in lines
    titles = [line.strip() for line in lines if line.strip().endswith(": CPU time")]
    assert titles == ["io-threads 4: CPU time"]


def test_explain_shows_which_inputs_move_the_answer_and_draws_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    result = replace(explaining(PREDICTED), sensitivity=made_sensitivity())
    monkeypatch.setattr(verbs, "explain", lambda *_, **__: result)
    drawn = tmp_path / "figures"
    arguments = ["explain", "x.yaml", "--sensitivity", "--figures", str(drawn)]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr()
    lines = [line.rstrip() for line in printed.out.splitlines()]
    assert "What moves throughput at io-threads 4" in lines
    words = [line.split() for line in lines]
    assert ["host.tcp_send_ns", "60%", "(50–70)", "━" * 14 + "─" * 6] in words
    assert ["49", "others", "together", "8.0%", "(3–17)", "━" + "─" * 4] in words
    assert ["clients", "160–2,600", "90%", "(80–100)"] in [each[:4] for each in words]
    text = " ".join(" ".join(lines).split())
    moved = "Uncertain numbers move it by ±10%, one standard deviation (1,520 simulations; chance"
    assert moved in text
    assert "Bounds and a regression miss 4.7% of the first variance." in text
    assert "46 more uncertain numbers change nothing here." in text
    assert "shares are of the rank" in text
    # Its own measurements are printed where they are about something else than the others.
    assert "Throughput at io-threads 4 is known to ±30%" in text
    assert printed.err == f"wrote {drawn}\n"
    assert {"sensitivity.svg", "sensitivity.png"} <= {file.name for file in drawn.iterdir()}


def test_explain_marks_nothing_where_nothing_is_recommended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = explaining(PREDICTED)
    text = "\n".join(explained(result, monkeypatch, capsys))
    assert "▶" not in text
    assert "io-threads 1: CPU time" in text


def test_explain_marks_nothing_where_no_setting_meets_the_objective(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = explaining(PREDICTED, Shown(1, recommended=False, closest=True))
    text = "\n".join(explained(result, monkeypatch, capsys))
    assert "▶" not in text
    assert "io-threads 4 comes closest" in text
    assert "io-threads 4: CPU time" in text


def test_explain_of_one_point_names_its_threads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = replace(POINTS[1], given={})
    result = explaining(PREDICTED | {"scenario": {"io_threads": 4}, "points": [alone]})
    lines = explained(result, monkeypatch, capsys)
    assert [line.strip() for line in lines if line.strip().endswith(": CPU time")] == [
        "io-threads 4: CPU time"
    ]


def test_calibrate_writes_a_profile_that_can_be_read_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from forecache.models.engines.profile import load_engine

    leaf = {"value": None, "low": 1.0, "high": 2.0, "unit": "1", "kind": "assumed", "method": "x"}
    profile = EngineProfile.model_validate(
        {
            "id": "mine",
            "title": "Mine",
            "engine": "valkey",
            "version": "9.1.2",
            "policy": "shared_queues",
            "layout": "hashtable",
            "whole_pipeline": True,
            "prefetch_batch": 16,
            "events_per_io_thread": 0,
            "job_capacity": 2048,
            "max_io_threads": 16,
            "sources": {},
            "work": dict.fromkeys(WORK_NAMES, leaf),
        }
    )
    monkeypatch.setattr(verbs, "calibrate", lambda *_, **__: (profile, calibration()))
    out = tmp_path / "engine.yaml"
    assert cli.main(["calibrate", "bundle", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "9.1.2" in printed.out
    assert printed.err == f"wrote {out}\n"
    assert load_engine(str(out)) == profile
