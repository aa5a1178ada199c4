"""A timeline holds every thread's steps and every request, in a form that viewers accept."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from forecache.models.advice.answers import explain, load_cases
from forecache.models.advice.node_answers import Shown
from forecache.models.breakdown import latency
from forecache.models.breakdown.latency import sample, trace_latency, traced_run
from forecache.models.breakdown.timeline import (
    GENERATOR,
    REQUESTS,
    SERVER,
    timeline,
    write_timeline,
)
from forecache.models.node.policies import POLICIES
from forecache.models.node.reference import run_reference
from forecache.models.node.simulate import simulate_node
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.sim.errors import InputError
from verification.nodes.sample_node import sample_setup, sample_times

BASE: dict[str, Any] = {"host": "graviton3-c7g.4xlarge", "engine": "valkey"}
LOADS: dict[str, dict[str, Any]] = {
    "closed loop": {"clients": 30},
    "pipelines": {"clients": 12, "pipeline": 8},
    "open loop": {"clients": 20, "open_loop": 1, "mean_interarrival_ps": 8_000_000},
}


def predicted(**fields: Any) -> Prediction:
    [prediction] = predict_cases(
        load_cases({**BASE, **fields}), draws=0, replications=1, requests=20_000
    )
    return prediction


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("policy", POLICIES)
def test_steps_nest_and_requests_add_up(policy: str, load: str) -> None:
    threads = 1 if policy == "single_thread" else 3
    setup = sample_setup(
        io_threads=threads,
        initial_active=threads,
        whole_pipeline=int(policy == "shared_queues"),
        generators=2,
        warmup_ps=2 * 10**8,
        end_ps=6 * 10**8,
        **LOADS[load],
    )
    trace = timeline(policy, sample_times(), setup)
    plain = run_reference(policy, sample_times(), setup)
    assert json.loads(json.dumps(trace)) == trace

    tracks: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    spans: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] in "BE":
            tracks[event["pid"], event["tid"]].append(event)
        elif event["ph"] in "be":
            spans[event["id"]].append(event)
    assert {pid for pid, _ in tracks} == {SERVER, GENERATOR}
    for events in tracks.values():
        open_steps: list[float] = []
        assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
        for event in events:
            if event["ph"] == "B":
                open_steps.append(event["ts"])
            else:
                assert event["ts"] >= open_steps.pop()
            assert len(open_steps) <= 2
        assert open_steps == []

    requests, latency_us = 0, 0.0
    for events in spans.values():
        stack: list[dict[str, Any]] = []
        inside = 0.0
        for event in events:
            assert event["pid"] == REQUESTS
            if event["ph"] == "b":
                stack.append(event)
                continue
            begin = stack.pop()
            assert begin["name"] == event["name"]
            lasts = event["ts"] - begin["ts"]
            if stack:
                inside += lasts
            else:
                assert lasts == pytest.approx(inside, abs=0.002)
                requests, latency_us, inside = requests + 1, latency_us + lasts, 0.0
        assert stack == []
    assert requests == trace["otherData"]["requests"] == plain.latency.count
    taken_ps = plain.latency.sum_ps + plain.counters["uncounted_ps"]
    assert latency_us == pytest.approx(taken_ps / 1e6, rel=1e-4)


def test_arrows_lead_from_sender_to_server_and_back() -> None:
    setup = sample_setup(
        io_threads=3,
        initial_active=3,
        clients=30,
        generators=2,
        warmup_ps=2 * 10**8,
        end_ps=8 * 10**8,
    )
    events = timeline("asynchronous", sample_times(), setup)["traceEvents"]
    begins = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "B"}
    flows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] in "stf":
            assert (event["pid"], event["tid"], event["ts"]) in begins
            flows[event["id"]].append(event)
    whole = Counter("".join(sorted(e["ph"] for e in flow)) for flow in flows.values())
    # The last steps of a run have no end, so a few arrows lead nowhere.
    assert sum(n for kinds, n in whole.items() if "s" in kinds and "f" in kinds) > 50
    for flow in flows.values():
        ends = {event["ph"]: event for event in flow}
        if "s" in ends and "f" in ends:
            assert ends["s"]["pid"] == ends["f"]["pid"] == GENERATOR
            assert ends["s"]["ts"] < min(e["ts"] for e in flow if e["ph"] == "t")
            assert ends["f"]["ts"] == max(e["ts"] for e in flow)


@pytest.mark.parametrize(
    "fields",
    [
        {"engine_version": "9.1", "io_threads": 4, "workload": {"clients": 300}},
        {"engine_version": "8.1", "io_threads": 4, "workload": {"clients": 60, "pipeline": 8}},
        {
            "engine_version": "8.0",
            "workload": {"clients": 50, "arrival": "open_loop", "rate_rps": 60_000},
        },
    ],
)
def test_the_stations_add_up_to_the_mean_latency(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "SAMPLE", 1_000)
    prediction = predicted(**fields)
    found = traced_run(prediction, seed=1)
    assert found is not None
    policy, times, setup = found
    compiled = simulate_node(policy, times, setup)
    traced = sample(*found)
    # The other execution of the same run, which answers come from, has the same latency.
    taken_ps = compiled.latency.sum_ps + compiled.counters["uncounted_ps"]
    assert traced.spent_ps.total() == taken_ps
    latency_breakdown = trace_latency(prediction, seed=1)
    assert latency_breakdown is not None
    assert latency_breakdown.traced_mean_us == pytest.approx(taken_ps / compiled.completions / 1e6)
    # The stations add up to the prediction that they explain, and the sample is near it.
    total_us = sum(row.us for row in latency_breakdown.stations)
    assert total_us == pytest.approx(prediction.mean("mean_ms") * 1000)
    assert total_us == pytest.approx(latency_breakdown.traced_mean_us, rel=0.05)


@pytest.mark.usefixtures("short_runs")
def test_explain_writes_the_timeline_of_the_setting_to_run(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    scenario = {**BASE, "io_threads": {"sweep": [3, 1]}, "workload": {"clients": 100}}
    answer = explain(scenario, timeline=path)
    assert answer.shown == Shown(0, recommended=True, closest=False)
    assert answer.timeline.given == {"io_threads": 3}
    trace = json.loads(path.read_text())
    assert len(trace["traceEvents"]) == answer.timeline.events
    assert answer.timeline.requests > 100
    for point in answer.points:
        assert sum(row.us for row in point.latency_breakdown.stations) == pytest.approx(
            point.latency_breakdown.mean_us
        )


def test_too_much_on_the_way_is_refused_by_name(tmp_path: Path) -> None:
    prediction = predicted(workload={"clients": 1000, "pipeline": 64})
    with pytest.raises(InputError, match=r"--timeline .*1000 clients with pipelines of 64"):
        write_timeline(tmp_path / "timeline.json", prediction, seed=1)
    assert not (tmp_path / "timeline.json").exists()
