"""The table of claims: what is exact, what is judged how, what may not be an input."""

import math
from pathlib import Path

import pytest

from evidence.articles import claims_page
from evidence.articles.predictors import Predictors
from evidence.articles.table import Claim, Claimed, Claims, judge, load_claims
from evidence.articles.used_memory import used_memory_bytes
from evidence.articles.yardstick import holds
from forecache.calibration.validate.dataset import read_dataset
from forecache.models.footprint.schema import Strings
from forecache.models.layouts.allocator import Allocator

DOCS = Path(__file__).parents[2] / "docs"

QUICK = ("bill_", "ecpu_", "footprint_", "saved_", "distinct")
"""Predictors that take no simulation."""


def quick_rows() -> Claims:
    claims = load_claims()
    chosen = [c for c in claims.claims if not c.predictor or c.predictor.startswith(QUICK)]
    return Claims(articles=claims.articles, claims=chosen)


def test_all_arithmetic_is_exact() -> None:
    rows = judge(quick_rows())
    arithmetic = [row for row in rows if row.claim.role == "arithmetic"]
    assert len(arithmetic) > 20
    assert {row.verdict for row in arithmetic} == {"exact"}


def test_bills_and_units_hold_and_the_managed_engines_memory_is_shown_with_its_gap() -> None:
    rows = {(row.claim.id, row.claim.part): row for row in judge(quick_rows())}
    for name in (("A079", "total"), ("A080", "nodes"), ("A081", "break-even")):
        assert rows[name].verdict == "exact"
    assert rows["A073", "ecpu"].verdict == "agrees"
    assert abs(rows["A073", "ecpu"].error or 0) < 0.02
    saving = rows["A009", "saving"]
    assert saving.verdict == "misses"
    assert saving.predicted == pytest.approx(14.5, abs=0.5)


def test_only_jemallocs_own_size_classes_make_the_managed_engines_saving_a_key() -> None:
    def saved(allocator: Allocator) -> float:
        one, two = (
            [Strings(type="string", keys=keys, key_bytes=16, value_bytes=100)]
            for keys in (5_000_000, 6_000_000)
        )
        old, new = (
            used_memory_bytes("valkey", two, engine_version=version, allocator=allocator, slots=1)
            - used_memory_bytes("valkey", one, engine_version=version, allocator=allocator, slots=1)
            for version in ("7.2", "8.0")
        )
        return (old - new) / 1e6

    assert saved("system_jemalloc") == pytest.approx(32, abs=0.5)
    assert saved("jemalloc") == pytest.approx(24, abs=0.5)
    assert saved("libc") == pytest.approx(24, abs=0.5)


@pytest.mark.parametrize(
    ("claimed", "predicted", "error"),
    [
        (Claimed(value=10, unit=""), 11, 0.1),
        (Claimed(value=10, unit=""), 9, -0.1),
        (Claimed(value=-50, unit=""), -60, -0.2),
        (Claimed(low=10, high=20, unit=""), 15, 0),
        (Claimed(low=10, high=20, unit=""), 22, 0.1),
        (Claimed(low=10, high=20, unit=""), 9, -0.1),
        (Claimed(low=10, unit=""), 1e9, 0),
        (Claimed(value=0, unit=""), 0, 0),
        (Claimed(value=0, unit=""), 1, math.inf),
    ],
)
def test_the_distance_from_a_value_or_a_range(
    claimed: Claimed, predicted: float, error: float
) -> None:
    assert claimed.error(predicted) == pytest.approx(error)


def test_a_wrong_sum_and_a_missed_prediction_are_called_so() -> None:
    claims = load_claims()
    claimed = Claimed(value=5, unit="")
    wrong = Claim(
        id="A900",
        article="valkey-8",
        role="arithmetic",
        statement="",
        claimed=claimed,
        formula="a + b",
        inputs={"a": 2, "b": 2},
        within=0.5,
    )
    missed = Claim(
        id="A901",
        article="valkey-8",
        role="prediction",
        statement="",
        claimed=claimed,
        predictor="ecpu_3200",
    )
    consistent = missed.model_copy(update={"id": "A902", "role": "consistent"})
    rows = judge(Claims(articles=claims.articles, claims=[wrong, missed, consistent]))
    assert [row.verdict for row in rows] == ["wrong", "misses", "disagrees"]


@pytest.mark.parametrize(
    ("error", "met"), [(0.0, True), (0.15, True), (-0.15, True), (0.151, False), (math.inf, False)]
)
def test_one_rule_says_what_holds_on_both_pages(error: float, met: bool) -> None:
    assert holds(error) is met
    assert claims_page.Claim("", "", "", "", error).met is met


def test_every_claim_of_the_articles_is_there() -> None:
    found = {claim.id for claim in load_claims().claims}
    ranges = ((1, 13), (20, 27), (30, 49), (60, 83), (90, 104))
    assert found == {f"A{n:03}" for low, high in ranges for n in range(low, high + 1)}


def test_a_prediction_is_made_once() -> None:
    made = Predictors()
    assert made("bill_total") is made("bill_total")


def test_what_a_dataset_fits_is_no_prediction() -> None:
    claims = load_claims().claims
    inputs = {c.claimed.value for c in claims if c.role == "calibration" and c.claimed}
    predicted = {c.claimed.value for c in claims if c.role == "prediction" and c.claimed}
    dataset, _ = read_dataset("redis-2.8-set-operations")
    for point in dataset.points:
        found = set(point.observed.values())
        assert found <= (inputs if point.role == "calibration" else predicted)
