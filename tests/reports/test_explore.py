"""The page of `explore` without a browser: its server, its processes, what it shows."""

import asyncio
import csv
import io
import json
import math
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.hwprofiles.files import read_yaml
from forecache.models.advice import answers
from forecache.models.advice.cases import load_cases
from forecache.models.advice.quick_estimate import ERROR, quick_estimate
from forecache.reports.explore import job, view
from forecache.reports.explore.controls import (
    CONTROLS,
    engine_names,
    host_names,
    one_node,
    values_of,
    with_changes,
)
from forecache.reports.explore.plots import Horizontal, PlottedCurve, curves
from forecache.reports.explore.processes import Jobs
from forecache.reports.explore.server import Explorer, application, question_of
from forecache.reports.explore.view import Answer, Results
from forecache.reports.text.formats import rate_unit
from forecache.sim.errors import InputError
from forecache.sim.statistics import Estimate
from tests.models.conftest import short_runs as short_runs
from tests.models.conftest import shorten

SMALL: dict[str, Any] = {
    "host": "c7g.large",
    "engine": "valkey",
    "engine_version": "8.0",
    "workload": {"clients": 4, "keys": 1000},
}
SMALLER = {**SMALL, "host": "c7g.medium"}


def question(*scenarios: dict[str, Any], **further: Any) -> job.PageState:
    asked = {"changes": ({},) * len(scenarios), "known": frozenset(), "seed": 1} | further
    return job.PageState(scenarios, **asked)


@pytest.fixture(scope="module")
def pair() -> tuple[list[job.Message], Answer, Results]:
    """Everything that is said of two scenarios, and what becomes of it."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        messages = list(job.answered(question(SMALL, SMALLER)))
    answer, results = Answer(), Results()
    answer.take(messages, results)
    return messages, answer, results


@pytest.mark.usefixtures("short_runs")
def test_simulated_points_are_those_of_simulate(
    pair: tuple[list[job.Message], Answer, Results],
) -> None:
    [point] = answers.simulate(SMALL).points
    found = pair[1].sides[0].point
    assert found is not None
    assert found.throughput_rps == point.throughput_rps
    assert found.p99_ms == point.p99_ms


def test_estimates_come_first_and_everything_is_simulated_in_the_end(
    pair: tuple[list[job.Message], Answer, Results],
) -> None:
    messages, answer, _ = pair
    kinds = [type(each).__name__ for each in messages]
    assert kinds[:2] == ["Described", "Described"]
    last_estimate = max(n for n, kind in enumerate(kinds) if kind == "Estimated")
    assert last_estimate < kinds.index("SimulatedThreads")
    assert kinds[-1] == "Ended"
    assert answer.progress is not None
    assert answer.progress.done == answer.progress.of
    for side in answer.sides:
        assert set(side.points) == set(side.estimates)
        assert side.loads
    assert [set(side.points) for side in answer.sides] == [{1, 2}, {1}]
    assert {each.quantity for each in answer.differences} >= {"throughput_rps", "usd_per_month"}


def test_what_is_known_is_not_simulated_again(
    pair: tuple[list[job.Message], Answer, Results],
) -> None:
    results = pair[2]
    again = question(SMALL, SMALLER, known=results.keys)
    start = time.perf_counter()
    messages = list(job.answered(again))
    assert time.perf_counter() - start < 2
    assert not any(getattr(each, "point", None) for each in messages)
    answer = Answer()
    answer.take(messages, results)
    assert answer.sides[0].points == pair[1].sides[0].points
    assert answer.differences == pair[1].differences


def test_an_estimate_is_never_shown_as_a_simulation() -> None:
    answer = Answer()
    found: list[job.Message] = []
    for message in job.answered(question(SMALL)):
        found.append(message)
        if isinstance(message, job.Estimated) and message.by_load:
            break
    answer.take(found, Results())
    shown = " ".join(" ".join(row) for row in view.rows(answer))
    assert "quick estimate" in shown
    assert "simulated" not in shown
    assert f"±{100 * ERROR['throughput_rps']:.0f}%" in shown
    figure = view.draw("throughput", answer, width_px=400, drawing=1)
    assert figure is not None
    assert "quick estimate" in figure
    assert "95% interval" not in figure
    made_by = {row["made_by"] for row in csv.DictReader(io.StringIO(view.data_file(answer)))}
    assert made_by == {"quick estimate"}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"cpu_quota_cores": 1.5}, "a CPU quota"),
        ({"other_busy_threads": 1}, "other busy threads"),
    ],
)
def test_what_comes_now_and_then_has_no_quick_estimate(fields: dict[str, Any], words: str) -> None:
    answer = Answer()
    found: list[job.Message] = []
    for message in job.answered(question({**SMALL, **fields})):
        found.append(message)
        if isinstance(message, job.SimulatedThreads):
            break
    assert not any(isinstance(message, job.Estimated) for message in found)
    answer.take(found[:-1], Results())
    rows = {row[0]: row[1] for row in view.rows(answer)}
    assert f"simulating; {words}" in rows[""]
    assert rows["Throughput"] == view.WAITING
    assert view.draw("throughput", answer, width_px=400, drawing=1) is None
    answer.take(found[-1:], Results())
    assert "simulated" in view.rows(answer)[0][1]


def test_a_data_file_has_every_number(pair: tuple[list[job.Message], Answer, Results]) -> None:
    answer = pair[1]
    rows = list(csv.DictReader(io.StringIO(view.data_file(answer))))
    first = rows[0]
    point = answer.sides[0].points[1]
    assert (first["scenario"], first["io_threads"], first["made_by"]) == ("A", "1", "simulation")
    assert float(first["throughput_rps"]) == pytest.approx(point.throughput_rps.value, rel=1e-5)
    assert float(first["throughput_rps_low"]) < float(first["throughput_rps"])
    assert {row["by"] for row in rows} == {"io_threads", "load"}


def test_figures_of_two_scenarios(pair: tuple[list[job.Message], Answer, Results]) -> None:
    answer = pair[1]
    for name in view.figure_titles(answer):
        for width_px in (300, 600):
            svg = view.draw(name, answer, width_px=width_px, drawing=1)
            assert svg is not None, name
            assert svg.startswith("<svg")
            assert "aria-label" in svg
            assert "nan" not in svg.lower().replace("nanos", "")
    rows = {row[0]: row[1:] for row in view.rows(answer)}
    assert len(rows["Throughput"]) == 3
    assert re.search("better|worse|no clear difference", rows["Throughput"][2])


def test_a_quick_estimate_is_near_a_simulation() -> None:
    [(case, system)] = load_cases(SMALL)
    [point] = answers.simulate(SMALL).points
    found = quick_estimate(case.scenario, system)
    assert found.throughput_rps == pytest.approx(
        point.throughput_rps.value, rel=ERROR["throughput_rps"]
    )


def test_more_than_a_server_can_do_has_no_estimated_latency() -> None:
    workload = {"arrival": "open_loop", "rate_rps": 5e6, "clients": 50}
    [(case, system)] = load_cases({**SMALL, "workload": workload})
    found = quick_estimate(case.scenario, system)
    assert found.throughput_rps < 5e6
    assert found.p99_ms is None


# --- controls ---


def test_every_control_changes_its_field() -> None:
    changes = {
        "host": "c7g.2xlarge",
        "engine": "redis 7.0",
        "io_threads": "3",
        "clients": "77",
        "pipeline": "1",
        "value_bytes": "99",
        "keys": "5_000",
        "get_percent": "25",
        "rate_rps": "12000",
        "tls": True,
    }
    assert set(changes) == {control.name for control in CONTROLS}
    [(case, system)] = load_cases(with_changes(SMALL, changes))
    engine = f"{system.engine.engine} {system.engine.version}"
    values = values_of(case.scenario, engine=engine)
    assert values.pop("keys") == 5000
    assert values.pop("tls") is True
    assert {name: f"{value:g}" if isinstance(value, float) else str(value)
            for name, value in values.items()} == {
        name: changes[name] for name in values
    }  # fmt: skip
    back = with_changes(case.scenario.model_dump(mode="json", exclude_none=True), {"rate_rps": ""})
    [(case, _)] = load_cases(with_changes(back, {"tls": False}))
    assert case.scenario.workload.arrival == "closed_loop"
    assert case.scenario.tls is None


def test_controls_offer_what_there_is() -> None:
    assert "valkey 9.1" in engine_names()
    assert {"graviton3", "c7g.4xlarge"} <= set(host_names())


def test_a_control_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="'clientz'"):
        with_changes(SMALL, {"clientz": "1"})


@pytest.mark.parametrize("value", ["", "many", "-1", "101", "nan"])
def test_a_share_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(InputError, match="valid is a share"):
        with_changes(SMALL, {"get_percent": value})


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.sampled_from([control.name for control in CONTROLS]),
        st.one_of(st.text(max_size=12), st.integers().map(str), st.booleans()),
    )
)
def test_any_text_in_a_control_is_valid_or_an_input_error(changes: dict[str, Any]) -> None:
    told = None
    try:
        load_cases(with_changes(SMALL, changes))
    except InputError as error:
        told = str(error)
    assert told is None or "\n" not in told


def test_a_sweep_over_threads_begins_at_its_knee(checkout: Path) -> None:
    data = read_yaml(checkout / "examples" / "quickstart.yaml")
    assert job.start_of(data)["io_threads"] == 8
    assert job.start_of({**data, "io_threads": "automatic"})["io_threads"] == 8


def test_other_sweeps_and_kinds_are_refused() -> None:
    swept = {**SMALL, "workload": {"clients": {"sweep": [1, 2]}}}
    with pytest.raises(InputError, match="found a sweep over clients"):
        one_node(swept, file="x.yaml")
    with pytest.raises(InputError, match="kind"):
        one_node({"kind": "cluster"}, file="x.yaml")


# --- plots ---


def test_a_simulated_point_is_filled_and_an_estimate_hollow() -> None:
    curve = PlottedCurve(
        "", "#0067a3", "circle", {1: 10.0, 2: 12.0}, {2: Estimate(11.0, 9.0, math.inf)}
    )
    svg = curves(
        [curve],
        title="T",
        unit=rate_unit(10.0),
        across=Horizontal("io-threads", ticks=[1, 2]),
        width_px=400,
        label='a "label" & more',
    )
    assert svg is not None
    marks = re.findall(r'<circle[^>]*style="fill: ([^;]*);', svg)
    assert marks == ["var(--paper,#fefefe)", "var(--main,#0067a3)"]
    assert "inf" not in svg
    assert "a &quot;label&quot; &amp; more" in svg


def test_nothing_known_is_nothing_drawn() -> None:
    across = Horizontal("load")
    empty = PlottedCurve("", "#0067a3", "circle")
    found = curves([empty], title="", unit=rate_unit(1), across=across, width_px=300, label="")
    assert found is None


# --- questions, server, processes ---


def test_questions_that_make_no_sense() -> None:
    for parameters in (
        {},
        {"a": "- 1"},
        {"a": "{"},
        {"a": "x: " + "y" * 30_000},
        {"a": "host: x", "changes": "{"},
        {"a": "host: x", "changes": "[1]"},
    ):
        with pytest.raises(InputError):
            question_of(parameters, known=frozenset(), seed=1)


@pytest.fixture(scope="module")
def explorer(pair: tuple[list[job.Message], Answer, Results]) -> Iterator[Explorer]:
    """One that knows what `pair` has found."""
    found = Explorer(SMALL, seed=1, results=pair[2])
    yield found
    found.jobs.close()


@pytest.fixture
def client(explorer: Explorer) -> Iterator[Any]:
    testclient = pytest.importorskip("starlette.testclient")
    with testclient.TestClient(application(explorer), base_url="http://127.0.0.1") as found:
        yield found


def test_nothing_without_the_token_or_under_another_name(client: Any, explorer: Explorer) -> None:
    assert client.get("/").status_code == 404
    assert client.get("/events").status_code == 404
    assert client.get(f"/{explorer.token}/server.py").status_code == 404
    address = f"/{explorer.token}/"
    assert client.get(address, headers={"Host": "evil.example"}).status_code == 400
    assert len(explorer.token) >= 20
    assert Explorer(SMALL, seed=1).token != explorer.token


def test_the_page_loads_nothing_from_elsewhere(client: Any, explorer: Explorer) -> None:
    answer = client.get(f"/{explorer.token}/")
    assert answer.status_code == 200
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for control in CONTROLS:
        assert f'id="{control.name}-a"' in answer.text
    for name in ("explore.css", "explore.js"):
        found = client.get(f"/{explorer.token}/{name}")
        assert found.status_code == 200
        assert "url(http" not in found.text


def events(client: Any, explorer: Explorer, **parameters: str) -> list[tuple[str, Any]]:
    text = client.get(f"/{explorer.token}/events", params=parameters).text
    found = re.findall(r"event: (.*)\ndata: (.*)\n\n", text)
    return [(name, json.loads(content)) for name, content in found]


def test_a_question_is_answered_with_figures_until_all_is_simulated(
    client: Any, explorer: Explorer
) -> None:
    larger = {**SMALL, "workload": {**SMALL["workload"], "clients": 5}}
    found = events(client, explorer, a=yaml.safe_dump(larger), changes='[{"clients": "4"}]')
    names = [name for name, _ in found]
    assert names[0] == "scenario"
    assert names[-1] == "ended"
    [side] = found[0][1]
    assert yaml.safe_load(side["yaml"])["workload"]["clients"] == 4
    assert side["values"]["clients"] == 4
    drawn = {content["name"] for name, content in found if name == "figure"}
    assert drawn == {"throughput", "latency", "load", "served", "busy", "stages-0"}


def test_an_input_error_is_one_event(client: Any, explorer: Explorer) -> None:
    for scenario in ({**SMALL, "host": "nowhere"}, {**SMALL, "io_threads": "x"}, {"a": 1}):
        *_, (name, content) = events(client, explorer, a=yaml.safe_dump(scenario))
        assert name == "failed"
        assert content["input_error"]
        assert "\n" not in content["reason"]
    [(name, content)] = events(client, explorer, a="[")
    assert (name, content["input_error"]) == ("failed", True)


def test_a_bug_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(job, "predict_candidates", broken)
    *_, last = job.answered(question(SMALL))
    assert isinstance(last, job.Failed)
    assert "bug" in last.reason
    assert "ZeroDivisionError" in last.reason


def test_a_process_that_is_lost_is_one_sentence_and_one_that_is_ended_is_gone() -> None:
    jobs = Jobs(ahead=1)

    async def asked() -> tuple[int | None, list[job.Message]]:
        found: list[job.Message] = []
        taken = jobs.take()
        taken.ask(question(SMALL))
        async for messages in taken.messages():
            if not found:
                taken.process.kill()
            found += messages
        taken.end()
        return taken.process.pid, found

    pid, found = asyncio.run(asked())
    assert isinstance(found[-1], job.Failed)
    assert "ended by itself" in found[-1].reason
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    jobs.close()


def test_results_are_kept_up_to_a_number() -> None:
    results = Results(most=2)
    for key in "abc":
        results.kept(key, key.upper())
    assert results.keys == {"b", "c"}
    assert results.kept("b", None) == "B"
    results.kept("d", "D")
    assert results.keys == {"b", "d"}
