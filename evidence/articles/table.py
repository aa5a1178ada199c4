"""The claims, and what became of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.quantity import evaluate
from forecache.hwprofiles.record import Record as _Record

from .predictors import COMMANDS, PREDICTORS, Predictors
from .yardstick import error_of, holds

FILE = Path(__file__).with_name("claims.yaml")

Role = Literal["prediction", "consistent", "arithmetic", "calibration", "context"]
"""What a row is for; the top of `claims.yaml` says what each means."""

Verdict = Literal["holds", "misses", "agrees", "disagrees", "exact", "wrong", "an input", "context"]


class Claimed(_Record):
    """A value or a range; a range may be open at one end."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str

    @model_validator(mode="after")
    def _something(self) -> Claimed:
        if (self.value is None) == (self.low is None and self.high is None):
            raise ValueError("a value, or low, high or both")
        return self

    def error(self, predicted: float) -> float:
        """Relative distance of a prediction from the value or the range, signed; 0 within it."""
        low = self.low if self.value is None else self.value
        high = self.high if self.value is None else self.value
        return error_of(predicted, low=low, high=high)


class Article(_Record):
    """Where claims come from."""

    title: str
    url: str | None = None
    note: str | None = None


class Claim(_Record):
    """One number of one claim, or a statement without a number."""

    id: str = Field(pattern=r"^A\d{3}$")
    article: str
    part: str | None = None
    role: Role
    statement: str
    claimed: Claimed | None = None
    formula: str | None = None
    inputs: dict[str, float] = Field(default={})
    within: float | None = Field(default=None, ge=0)
    predictor: str | None = None
    gap: str | None = None
    """Why a prediction misses, as far as that is known."""
    changed: str | None = None
    """What was changed in its model after the claim had been held against it: such a prediction
    was not made blindly."""
    note: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Claim:
        arithmetic = self.role == "arithmetic"
        if arithmetic != (self.within is not None):
            raise ValueError("within with role arithmetic, and only there")
        if arithmetic and (self.formula is None) == (self.predictor is None):
            raise ValueError("formula or predictor with role arithmetic")
        prediction = self.role == "prediction"
        compared = self.role in ("prediction", "consistent", "calibration")
        if self.role in ("prediction", "consistent") and self.predictor is None:
            raise ValueError(f"predictor with role {self.role}")
        if (self.gap is not None or self.changed is not None) and not prediction:
            raise ValueError("gap and changed with role prediction only")
        if not (arithmetic or compared) and (self.predictor or self.formula):
            raise ValueError("nothing to make a number by with this role")
        if self.role != "context" and self.claimed is None:
            raise ValueError("what is claimed, but with role context")
        if self.predictor is not None and self.predictor not in PREDICTORS:
            raise ValueError(f"a predictor, not {self.predictor!r}")
        return self


class Claims(_Record):
    """The whole file."""

    articles: dict[str, Article]
    claims: list[Claim]

    @model_validator(mode="after")
    def _known(self) -> Claims:
        names = [(claim.id, claim.part) for claim in self.claims]
        if len(set(names)) != len(names):
            raise ValueError("each id and part once")
        if unknown := {claim.article for claim in self.claims} - self.articles.keys():
            raise ValueError(f"articles listed in this file, not {', '.join(sorted(unknown))}")
        return self


@dataclass(frozen=True)
class Row:
    """A claim and what became of it.

    Attributes
    ----------
    predicted
        In the claim's unit; None where nothing is predicted.
    error
        Relative to the value or to the nearer end of the range; 0 within it.
    command
        What shows how the prediction comes about.
    """

    claim: Claim
    predicted: float | None
    error: float | None
    verdict: Verdict
    command: str


@lru_cache(maxsize=1)
def load_claims() -> Claims:
    """The claims that come along."""
    return parse(Claims, read_yaml(FILE), file=str(FILE))


def judge(claims: Claims, progress: Callable[[str], None] = lambda _line: None) -> list[Row]:
    """Recompute and predict every row."""
    predictors = Predictors(progress)
    return [_row(claim, predictors) for claim in claims.claims]


def _row(claim: Claim, predictors: Predictors) -> Row:
    if claim.role == "arithmetic":
        assert claim.claimed is not None  # the schema saw to these
        assert claim.claimed.value is not None
        assert claim.within is not None
        if claim.predictor is not None:
            found, shown = predictors(claim.predictor), COMMANDS[claim.predictor]
        else:
            assert claim.formula is not None
            found, shown = evaluate(claim.formula, claim.inputs), claim.formula
        exact = abs(found - claim.claimed.value) <= claim.within * (1 + 1e-9)
        error = claim.claimed.error(found)
        return Row(claim, found, error, "exact" if exact else "wrong", shown)
    verdict: Verdict = "an input" if claim.role == "calibration" else "context"
    if claim.predictor is None:
        return Row(claim, None, None, verdict, "")
    assert claim.claimed is not None
    found = predictors(claim.predictor)
    error = claim.claimed.error(found)
    if claim.role == "prediction":
        verdict = "holds" if holds(error) else "misses"
    elif claim.role == "consistent":
        verdict = "agrees" if holds(error) else "disagrees"
    return Row(claim, found, error, verdict, COMMANDS[claim.predictor])


def judged(progress: Callable[[str], None] = lambda _line: None) -> dict[str, Any]:
    """Every claim as plain data.

    Returns
    -------
    dict
        `rows`: each with the claim's fields, `predicted`, `error`, `verdict` and `command`;
        `summary`: how many of each role have each verdict; `articles`.
    """
    claims = load_claims()
    rows = judge(claims, progress)
    summary: dict[str, dict[str, int]] = {}
    for row in rows:
        counts = summary.setdefault(row.claim.role, {})
        counts[row.verdict] = counts.get(row.verdict, 0) + 1
    return {
        "kind": "articles",
        "articles": {name: article.model_dump() for name, article in claims.articles.items()},
        "rows": [
            row.claim.model_dump(exclude_none=True)
            | {
                "predicted": row.predicted,
                "error": row.error,
                "verdict": row.verdict,
                "command": row.command,
            }
            for row in rows
        ],
        "summary": summary,
    }
