"""The claims of the articles the project began with, as they were judged.

They are judged with every release: `make evidence STUDY=articles`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.sim.plain import Result, where_set

ARTEFACT = Path("evidence/articles/articles.json")


@dataclass(frozen=True, kw_only=True)
class ClaimedRange(Result):
    """A value or a range; a range may be open at one end."""

    value: float | None = where_set()
    low: float | None = where_set()
    high: float | None = where_set()
    unit: str


@dataclass(frozen=True, kw_only=True)
class JudgedClaim(Result):
    """One number of one claim, or a statement without a number.

    Attributes
    ----------
    part
        Which number of the claim it is, where there are several.
    inputs, formula
        Of arithmetic: the article's own numbers, and what is computed from them, `within` which
        relative error.
    predictor
        What of the model predicts it.
    error
        Relative distance of the prediction from the value or the range.
    changed
        What of the model was changed after the claim had been compared.
    gap
        Of a prediction that misses: why, as far as that is known.
    command
        Shows how the prediction comes about.
    """

    id: str
    article: str
    part: str = where_set("")
    role: str
    statement: str
    claimed: ClaimedRange | None = where_set()
    formula: str = where_set("")
    inputs: Mapping[str, float]
    within: float | None = where_set()
    predictor: str = where_set("")
    gap: str = where_set("")
    changed: str = where_set("")
    note: str = where_set("")
    predicted: float | None
    error: float | None
    verdict: str
    command: str


@dataclass(frozen=True)
class JudgedClaims(Result):
    """All claims; `summary` counts verdicts by role."""

    kind: str
    articles: Mapping[str, Mapping[str, str | None]]
    """Where the claims come from: `title`, and maybe `url` and `note`."""
    rows: Sequence[JudgedClaim]
    summary: Mapping[str, Mapping[str, int]]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> JudgedClaims:
        """The claims that `to_dict` was made of."""
        rows = []
        for row in plain["rows"]:
            claimed = row.get("claimed")
            rows.append(JudgedClaim(**{**row, "claimed": claimed and ClaimedRange(**claimed)}))
        return cls(plain["kind"], plain["articles"], rows, plain["summary"])


def judged_claims() -> JudgedClaims:
    """Every claim with its prediction."""
    text = ARTEFACT.read_text(encoding="utf-8")
    return JudgedClaims.from_dict(json.loads(text))
