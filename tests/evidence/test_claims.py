"""A vendor's claims: predicted for the instances they were made of, and listed with their gaps."""

from typing import Any

import pytest

from evidence.articles.claims import ENGINE, look_up, scenario, study
from evidence.articles.claims_page import claims, page
from forecache.models.advice.answers import load_cases
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import predict_cases


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return study(sizes=("xlarge", "2xlarge", "4xlarge"), draws=0, requests=4_000)


def test_what_leaves_the_main_thread_helps_only_where_it_is_the_limit(
    found: dict[str, Any],
) -> None:
    gains = {
        row["size"]: row["assumed"]["7.1 against 7.0"]["throughput"]["value"]
        for row in found["sizes"]
    }
    limits = {row["size"]: row["assumed"]["7.1"]["bottleneck"] for row in found["sizes"]}
    assert gains["xlarge"] < 0.05
    assert limits["xlarge"] in ("I/O threads", "network")
    assert gains["4xlarge"] > 1.0
    assert gains["xlarge"] < gains["2xlarge"] < gains["4xlarge"]


def test_a_burst_never_makes_it_slower(found: dict[str, Any]) -> None:
    for row in found["sizes"]:
        for version in ("7.0", "7.1"):
            usual, burst = (
                row[v][version]["throughput_rps"]["value"] for v in ("assumed", "burst")
            )
            assert burst > 0.98 * usual
        assert row["burst"]["bandwidth_gbit_per_s"] >= row["assumed"]["bandwidth_gbit_per_s"]


@pytest.mark.parametrize("version", ["7.0", "7.1"])
def test_work_said_to_be_that_of_redis_is(version: str) -> None:
    redis = load_engine("redis-7.0")
    work = load_engine(ENGINE, version).work
    reused = {name: leaf for name, leaf in work.items() if leaf.source == redis.id}
    assert len(reused) > 10
    for name, leaf in reused.items():
        assert leaf.best == redis.work[name].best, name


def test_every_claim_is_listed_with_its_gap(found: dict[str, Any]) -> None:
    text = page(found)
    for claim in claims(found):
        assert claim.statement in text
        assert claim.gap
        assert ("holds" if claim.met else "**misses**") in text
    missed = {claim.statement for claim in claims(found) if not claim.met}
    held = {claim.statement for claim in claims(found) if claim.met}
    assert "7.1, r7g.4xlarge and larger: requests a second" in held
    assert missed


def test_a_hash_find_costs_less_the_more_keys_are_found_together() -> None:
    cases = load_cases(scenario("r7g", "4xlarge", "7.1", 8))
    [prediction] = predict_cases(cases, draws=0, replications=1, requests=4_000)
    alone, three, many = (
        look_up(prediction, keys=keys, draws=0)["together_ns"] for keys in (1, 3, 16)
    )
    assert alone > three > many
    found = look_up(prediction, keys=3, draws=3)
    assert found["alone_ns"] == pytest.approx(alone, rel=0.15)
    change = found["change"]
    assert -1 < change["low"] < change["value"] < change["high"] < 0
