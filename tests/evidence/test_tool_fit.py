"""The work of a benchmark tool on a host, found from points that a known one made up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from evidence.live.tool_fit import SCALES, fitted_tool
from forecache.calibration.bundle.points import Conditions, ObservedPoint
from forecache.calibration.fit.work_model import scenario_of
from forecache.hwprofiles import load_host
from forecache.models.engines.generator import GeneratorProfile, load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.sweeps import Case
from tests.calibration.test_bundle import repetition

SYSTEM = System(
    load_host("c7g.4xlarge"), load_engine("valkey", "8.1"), load_generator("valkey-benchmark")
)
FACTORS = {"user_scale": 0.8, "kernel_scale": 0.85}


def cpu_us(tool: GeneratorProfile, given: Sequence[Conditions], *, seed: int) -> list[float]:
    """CPU time of the tool per request at each point."""
    system = replace(SYSTEM, generator=tool)
    cases = [
        (
            Case[Any](given={}, scenario=scenario_of(g, engine="valkey", engine_version="8.1")),
            system,
        )
        for g in given
    ]
    made = predict_cases(cases, seed=seed, draws=0, replications=1, requests=20_000)
    return [each.nominal[0].result.generator_cpu_us_per_request for each in made]


def test_a_tool_that_is_cheaper_here_is_found_out() -> None:
    """By its CPU time at a point between; the two scales alone are told apart less well."""
    known = SYSTEM.generator
    work = dict(known.work)
    for name, factor in FACTORS.items():
        work[name] = work[name].model_copy(update={"value": work[name].best * factor})
    truth = known.model_copy(update={"work": work})
    driven = [Conditions(command="get", pipeline=pipeline) for pipeline in (1, 4, 16)]
    between = [Conditions(command="get", pipeline=8)]
    points = [
        ObservedPoint(given=g, repetitions=[repetition(5e3, generator_cpu_ns_per_request=1e3 * us)])
        for g, us in zip(driven, cpu_us(truth, driven, seed=7), strict=True)
    ]
    found = fitted_tool(points, SYSTEM)
    [made], [told], [before] = (cpu_us(tool, between, seed=8) for tool in (truth, found, known))
    assert before / made > 1.1
    assert told / made == pytest.approx(1.0, abs=0.04)
    assert {name: found.work[name] for name in work if name not in SCALES} == {
        name: known.work[name] for name in work if name not in SCALES
    }
