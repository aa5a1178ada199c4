"""What tests of the model share."""

from typing import Any

import pytest

from forecache.models.advice import answers, limits
from forecache.models.advice import thread_plan as thread_plan_module
from forecache.models.breakdown import latency
from forecache.models.prediction import predict
from forecache.models.prediction.predict import predict_cases


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers from a few short runs, for tests of what is said, not of how exactly."""
    short = {"draws": 2, "replications": 2, "requests": 2_000}

    def few(*cases: Any, **how: Any) -> Any:
        return predict_cases(*cases, **(how | short))

    monkeypatch.setattr(answers, "predict_cases", few)
    monkeypatch.setattr(thread_plan_module, "predict_cases", few)
    monkeypatch.setattr(limits, "REQUESTS", 2_000)
    monkeypatch.setattr(predict, "DRAW_REQUESTS", 2_000)
    monkeypatch.setattr(latency, "SAMPLE", 200)
