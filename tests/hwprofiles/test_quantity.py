"""A leaf refuses to be a number without an origin."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from forecache.hwprofiles.quantity import Quantity, Source, evaluate


def quantity(**changes: Any) -> Quantity:
    leaf = {"value": 5.0, "unit": "ns", "kind": "measured", "source": "s", **changes}
    return Quantity.model_validate(leaf)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"low": 6.0, "high": 7.0}, "low <= value <= high"),
        ({"low": 7.0, "high": 6.0}, "low <= high"),
        ({"low": 4.0}, "both low and high"),
        ({"value": None}, "a range"),
        ({"kind": "assumed", "method": "guess"}, "a range"),
        ({"kind": "assumed", "low": 4, "high": 6}, "a reason in method"),
        ({"source": None}, "a source where kind is measured"),
        ({"kind": "derived"}, "a formula exactly where"),
        ({"formula": "2 + 3"}, "a formula exactly where"),
        ({"value": True}, "valid number"),
        ({"value": float("nan")}, "finite"),
        ({"value": "fast"}, "number"),
        ({"value": None, "low": 0.0, "high": 3.0}, "above zero"),
        ({"status": "checked"}, "reviewed"),
        ({"sorce": "s"}, "Extra"),
    ],
)
def test_a_leaf_without_proper_origin_is_refused(changes: dict[str, Any], part: str) -> None:
    with pytest.raises(ValidationError, match=part):
        quantity(**changes)


def test_an_unknown_value_stands_for_the_geometric_middle() -> None:
    assert quantity(value=None, low=2.0, high=8.0).best == pytest.approx(4.0)
    assert quantity(low=2.0, high=8.0).best == 5.0


@given(st.floats(1e-3, 1e6), st.floats(0, 1), st.floats(0, 1), st.sampled_from([True, False]))
def test_a_leaf_survives_plain_data(value: float, down: float, up: float, known: bool) -> None:
    leaf = quantity(value=value if known else None, low=value * (1 - down / 2), high=value + up)
    for options in ({}, {"exclude_none": True}, {"exclude_defaults": True}):
        data = leaf.model_dump(mode="json", **options)
        assert "value" in data
        assert Quantity.model_validate(data) == leaf


def test_a_source_needs_a_place() -> None:
    with pytest.raises(ValidationError, match="url or a file"):
        Source(title="hearsay")


def test_formulas() -> None:
    values = {"clock_ghz": 2.5, "caches.L2.latency_ns": 5.0}
    assert evaluate("10 / clock_ghz", values) == 4.0
    assert evaluate("(caches.L2.latency_ns - 1) * 2 ** 3", values) == 32.0
    assert evaluate("-clock_ghz + 3", values) == 0.5


@pytest.mark.parametrize(
    "formula",
    ["", "1 +", "clock", "1 / 0", "__import__('os')", "[1]", "'a' * 9", "True + 1", "9**9**9**9"],
)
def test_anything_but_arithmetic_is_refused(formula: str) -> None:
    with pytest.raises(ValueError, match="formula"):
        evaluate(formula, {})
