"""The calculator's tables: what they keep of step times, and what the page writes."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from evidence.calculator import tables
from evidence.calculator.page import ENGINES, HOSTS
from forecache.models.advice.cases import load_cases
from forecache.models.prediction import node_setup, predict, run_length, simulation, uncertainty
from forecache.sim import histogram
from forecache.sim.statistics import student_t

CHOSEN = {"threads": 4, "clients": 50, "pipeline": 1, "get": 0.8, "value": 256, "keys": 1_000_000}


def test_logarithms_keep_values_to_half_a_step() -> None:
    values = np.array([1.0, 3.0, 1234.5, 6.1e8])
    kept = 2.0 ** (tables._logs(values, tables.PLAIN_STEPS) / tables.PLAIN_STEPS)
    np.testing.assert_allclose(kept, values, rtol=0.00035)


def test_nothing_stays_nothing() -> None:
    assert tables._logs(np.zeros(2), tables.PLAIN_STEPS).tolist() == [tables.NOTHING] * 2


def test_a_factor_on_nothing_is_one() -> None:
    assert tables._ratio(np.array([0.0, 6.0]), np.array([0.0, 3.0])).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("rate", [None, 50_000])
@pytest.mark.parametrize("get", [0.0, 0.8, 1.0])
def test_choices_are_a_valid_scenario(rate: int | None, get: float) -> None:
    text = yaml.safe_dump(
        tables.scenario_of(HOSTS[0], ENGINES[0], **CHOSEN | {"rate": rate, "get": get})
    )
    [(case, system)] = load_cases(yaml.safe_load(text))
    assert case.scenario.workload.get_fraction == pytest.approx(get)
    assert case.scenario.workload.mean_rate_rps == rate
    assert f"{system.engine.engine} {system.engine.version}" == ENGINES[0]


@pytest.mark.parametrize("host", HOSTS)
def test_no_host_has_what_the_page_leaves_out(host: str) -> None:
    """Interruptions, and caches that other machines fill."""
    [(_, system)] = load_cases(tables.scenario_of(host, ENGINES[0], **CHOSEN))
    assert not system.host.speed().interruptions
    assert system.host.speed().l3_fills_per_us == 0.0
    assert system.basis == "catalogue"


HELD = (histogram, node_setup, predict, run_length, simulation, uncertainty)
"""Modules whose constants the scripts repeat, with or without an underscore before their names."""


def test_constants_of_the_scripts_are_those_of_the_model() -> None:
    text = (Path(tables.__file__).parent / "templates" / "model.js").read_text(encoding="utf-8")
    head = text.partition("// --- step times")[0]
    found = dict(re.findall(r"\b([A-Z][A-Z0-9_]+) = ([-\d.e* +]+)", head))
    units = {"PS_PER_S": 1e12, "PS_PER_MS": 1e9}
    assert len(found) > 20
    for name, number in found.items():
        known = {
            float(getattr(module, written))
            for module in HELD
            for written in (name, f"_{name}")
            if isinstance(getattr(module, written, None), int | float)
        } or {units[name]}
        assert known == {float(eval(number))}, name
    factors = re.findall(r"(\d+): ([\d.]+)", head)
    assert [int(freedom) for freedom, _ in factors] == [
        predict.REPLICATIONS - 1,
        predict.DRAWS - 1,
    ]
    for freedom, factor in factors:
        assert float(factor) == pytest.approx(student_t(0.95, int(freedom)), rel=1e-12)
