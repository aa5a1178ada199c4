"""Both executions of the node agree to the picosecond: the random scenarios of the tests, and more.

The scenarios and the comparison are those of `tests/models/test_node_twin.py`.
"""

import importlib.util
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from hypothesis import HealthCheck, settings

from forecache.models.node.policies import POLICIES

from ..check import Check, Finding

SCENARIOS = 200
Scenarios = Callable[[str, int], Sequence[object]]
"""Runs so many random scenarios of a policy; returns those that agree."""


def _twin_test() -> ModuleType:
    # The time of one scenario says nothing; every run has the same ones.
    settings.register_profile(
        "verification",
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("verification")
    path = Path(__file__).parents[2] / "tests" / "models" / "test_node_twin.py"
    spec = importlib.util.spec_from_file_location("test_node_twin", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _agreeing(subject: str, scenarios: Callable[[], Sequence[int]]) -> Finding:
    """How many scenarios agree; the first that doesn't is printed."""
    try:
        agreeing = len(scenarios())
    except Exception:
        # An assertion says nothing by itself outside pytest: its place, and Hypothesis's example.
        print(f"  {subject}:\n{traceback.format_exc()}", flush=True)
        agreeing = 0
    return Finding(subject, SCENARIOS, agreeing, SCENARIOS, float("inf"), agreeing >= SCENARIOS)


def _every_policy(where: str, scenarios_of: Callable[[ModuleType], Scenarios]) -> list[Finding]:
    """The scenarios of the twins' test that `scenarios_of` takes from it, for each policy."""
    scenarios = scenarios_of(_twin_test())
    return [
        _agreeing(
            f"{policy}{where}: scenarios that agree",
            lambda policy=policy: scenarios(policy, SCENARIOS),
        )
        for policy in POLICIES
    ]


def _on_own_cores() -> list[Finding]:
    return _every_policy("", lambda test: test.completions_of_random_scenarios)


def _on_shared_cores() -> list[Finding]:
    return _every_policy(", shared cores", lambda test: test.switches_of_random_scenarios)


def _under_quotas() -> list[Finding]:
    return _every_policy(", CPU quota", lambda test: test.throttles_of_random_scenarios)


def _on_hyperthreads() -> list[Finding]:
    return _every_policy(", hyperthreads", lambda test: test.slower_in_random_scenarios)


CHECKS = [
    Check("twins", "both executions complete the same requests at the same times", _on_own_cores),
    Check("twins-shared-cores", "also where threads share cores", _on_shared_cores),
    Check("twins-quota", "also where a CPU quota stops them", _under_quotas),
    Check("twins-hyperthreads", "also where they share physical cores", _on_hyperthreads),
]
