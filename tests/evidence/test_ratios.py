"""How far ratios of two predictions are off: made pairs whose answer is known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evidence.accuracy.ratios import (
    PUBLISHED,
    MeasuredPair,
    inside,
    summary,
    unshared,
)
from forecache.models.advice.paired import UNSHARED
from forecache.models.prediction.predict import SERVER_CPU

_Z95 = 1.959963984540054


def pair(measured: float = 0.0, predicted: float = 0.0, **changes: Any) -> MeasuredPair:
    """A ratio whose prediction is known to 1% but for a model error of up to 10%."""
    made = MeasuredPair(
        kind="versions",
        source="shipped",
        quantity=SERVER_CPU,
        hosts=frozenset({"zen5"}),
        engines=frozenset({"valkey-8.0.1", "valkey-8.1.1"}),
        same_point=True,
        measured=measured,
        predicted=predicted,
        known=0.01,
        unshared=0.1,
        noise=0.02,
        clear=True,
    )
    return replace(made, **changes)


def drawn(factor: float, number: int, seed: int, **changes: Any) -> list[MeasuredPair]:
    """Pairs whose errors are as large as a factor says."""
    spread = np.sqrt((factor * 0.1) ** 2 + 0.01**2 + 0.02**2) / _Z95
    errors = spread * np.random.default_rng(seed).standard_normal(number)
    return [pair(predicted=float(error), **changes) for error in errors]


@pytest.mark.parametrize("factor", [0.4, 0.8, 1.5])
def test_the_factor_is_the_one_that_errors_were_made_with(factor: float) -> None:
    pairs = drawn(factor, 8000, seed=3)
    assert unshared(pairs) == pytest.approx(factor, abs=0.03)
    assert inside(pairs, factor) == pytest.approx(0.95, abs=0.01)
    assert inside(pairs, factor / 2) < 0.85


def test_the_factor_covers_live_and_published_pairs_however_many_there_are() -> None:
    live, published = drawn(0.5, 8000, seed=1), drawn(1.5, 400, seed=2, source=PUBLISHED)
    factor = unshared([*live, *published])
    assert factor == unshared(published) == pytest.approx(1.5, abs=0.15)
    assert inside(live, factor) > 0.99
    assert unshared([*live, *drawn(0.2, 400, seed=2, source=PUBLISHED)]) == unshared(live)


def test_what_is_left_out_has_no_say() -> None:
    """Errors of one host are three times those of others: without it intervals are too narrow."""
    usual = drawn(0.5, 4000, seed=1)
    worse = drawn(1.5, 4000, seed=2, hosts=frozenset({"zen3"}))
    left_out = summary([*usual, *worse])["kinds"]["versions"]["left_out"]["host"]
    assert left_out["groups"]["zen3"]["unshared"] == pytest.approx(0.5, abs=0.03)
    assert left_out["groups"]["zen3"]["inside"] < 0.6
    assert left_out["groups"]["zen5"]["inside"] > 0.99
    # Both engines are in every pair, so nothing is left to find the factor from.
    assert summary(usual)["kinds"]["versions"]["left_out"]["engine"]["inside"] is None


@pytest.mark.parametrize(
    ("measured", "predicted", "said"),
    [
        (0.3, 0.3, "right"),
        (-0.3, -0.3, "right"),
        (0.3, -0.3, "wrong"),
        (0.3, 0.02, "no clear difference"),
    ],
)
def test_a_sign_is_right_wrong_or_not_clear(measured: float, predicted: float, said: str) -> None:
    assert pair(measured, predicted).sign == said
    [row] = summary([pair(measured, predicted), pair(0.3, 0.3, clear=False)])["signs"]
    assert (row["clear"], row[said]) == (1, 1)
    # Of live engines only what is compared with the reference counts, as on the page of steps.
    others = frozenset({"valkey-8.1.1", "valkey-9.1.2"})
    assert summary([pair(measured, predicted, engines=others)])["signs"] == []


def test_intervals_are_those_of_the_package() -> None:
    half = pair().half(UNSHARED["versions"])
    assert half == pytest.approx(np.hypot(0.01, 0.1 * UNSHARED["versions"]))
