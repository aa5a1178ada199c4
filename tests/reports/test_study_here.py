"""A study's scenario on the machine that runs the study."""

from forecache.hwprofiles import load_host
from forecache.models.advice.answers import load_cases
from forecache.models.step_times.sharing import check_cores
from forecache.reports.study import _here, _step


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


def test_a_step_says_what_remains() -> None:
    begun = "1 of 4: profiling this host; then observing a real engine, calibrating, predicting"
    assert _step(1) == begun
    assert _step(4) == "4 of 4: predicting"
