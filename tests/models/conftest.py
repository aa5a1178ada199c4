"""What tests of the model share."""

from typing import Any

import pytest

from forecache.models.advice import answers, limits
from forecache.models.advice import thread_plan as thread_plan_module
from forecache.models.breakdown import latency
from forecache.models.prediction import predict, simulation
from forecache.models.prediction.predict import predict_cases


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers from a few short runs, for tests of what is said, not of how exactly."""
    shorten(monkeypatch)


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Make answers of a few short runs while `patch` is in force."""
    short = {"draws": 2, "replications": 2, "requests": 2_000}

    def few(*cases: Any, **how: Any) -> Any:
        return predict_cases(*cases, **(how | short))

    for name, value in short.items():
        patch.setitem(predict_cases.__kwdefaults__, name, value)
    patch.setattr(answers, "predict_cases", few)
    patch.setattr(thread_plan_module, "predict_cases", few)
    patch.setattr(limits, "REQUESTS", 2_000)
    patch.setattr(predict, "DRAW_REQUESTS", 2_000)
    patch.setattr(simulation, "OPEN_PILOT_REQUESTS", 2_000)
    patch.setattr(latency, "SAMPLE", 200)
