"""A study's scenario on the machine that runs the study."""

import pytest

from forecache.calibration.observe.design import TIMINGS, brief_threaded_points, design_points
from forecache.hwprofiles import load_host
from forecache.models.advice.answers import load_cases
from forecache.models.step_times.cores import check_cores
from forecache.reports.study import OtherWork, _here, _step, expected_seconds, expected_words, rough


def test_cores_set_apart_on_the_scenarios_host_are_not_looked_for_here() -> None:
    systems = load_cases(
        {
            "host": "c7g.16xlarge",
            "engine": "valkey",
            "cores": 12,
            "irq_cores": 8,
            "load_generator": {"threads": 16, "cores": 16, "same_host": True},
        }
    )
    small = load_host("c7g.large")
    cores = small.speed().cores
    here = _here(systems, small, systems[0][1].engine)
    assert [case.scenario.io_threads for case, _ in here] == [1, 2]
    for case, system in here:
        assert system.host is small
        check_cores(case.scenario, cores)
        assert system.sharing(case.scenario).server_cores == cores


def test_a_step_says_what_it_takes_and_what_remains() -> None:
    step_s = (32.0, 104.0, 5.0, 12.0)
    assert _step(1, step_s) == (
        "1 of 4: profiling this host, about 30 s; then observing a real engine, calibrating, "
        "predicting"
    )
    assert _step(4, step_s) == "4 of 4: predicting, about 10 s"


@pytest.mark.parametrize("busy_share", [0.0, 0.5])
def test_a_quick_study_takes_less_than_three_minutes(busy_share: float) -> None:
    points = [*design_points("quick"), *brief_threaded_points()]
    step_s = expected_seconds(points, TIMINGS["quick"], busy_share=busy_share)
    assert len(step_s) == 4
    assert 120.0 < sum(step_s) < 180.0


def test_a_full_design_and_other_programs_take_longer() -> None:
    quick, full = (
        sum(expected_seconds(design_points(name), TIMINGS[name], busy_share=0.0))
        for name in ("quick", "full")
    )
    assert 4 * 60 < full < 15 * 60
    assert full > 2 * quick
    busy = sum(expected_seconds(design_points("full"), TIMINGS["full"], busy_share=1.0))
    assert full < busy < 2 * full


def test_the_first_words_fit_a_line_and_say_what_else_runs() -> None:
    assert expected_words((60.0, 100.0), OtherWork(0.05, 2)) == "this takes about 2 min 40 s"
    busy = expected_words((60.0, 100.0), OtherWork(1.04, 2))
    assert busy == "this takes about 2 min 40 s, since other programs use 1.0 of 2 CPUs"
    assert len(f"[  1.2 s] {busy}") <= 80


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "5 s"), (32.0, "30 s"), (58.0, "1 min"), (101.0, "1 min 40 s"), (176.0, "3 min")],
)
def test_durations_are_said_roughly(seconds: float, words: str) -> None:
    assert rough(seconds) == words
