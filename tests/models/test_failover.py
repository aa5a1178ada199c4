"""Failover: votes, quorum, ranks, and what was published of a thousand primaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.over_time.cluster.failover import (
    MOST_NODES,
    Failover,
    FailoverRules,
    fail_over,
    rules_for,
)

LARGE = FailoverRules(primaries=1000)


def test_one_primary_takes_its_timeout_a_majority_and_an_election() -> None:
    found = fail_over(LARGE, 1, seed=5)
    # Of 2,000 nodes one pings at once.
    assert 15.0 <= found.suspected_s <= 15.5
    # Suspicions of a majority come within half a timeout; then 0.5 to 1 s, two ticks, and votes.
    assert found.suspected_s < found.failed_s[0] < 15.0 + 7.5 + 3.75
    assert 0.5 <= found.recovered_s[0] - found.failed_s[0] <= 1.4
    assert found.elections == 1


@pytest.mark.parametrize(("failed", "published_s", "within"), [(1, 9, 0.3), (250, 14, 0.35)])
def test_recovery_of_many_is_near_what_was_published(
    failed: int, published_s: float, within: float
) -> None:
    """https://valkey.io/blog/1-billion-rps/: from the first suspicion until all is well."""
    found = fail_over(LARGE, failed)
    recovery_s = found.recovered_s.max() - found.suspected_s
    assert recovery_s == pytest.approx(published_s, rel=within)


@given(
    primaries=st.integers(1, 60), share=st.floats(0, 1), seed=st.integers(0, 1000),
    ranked=st.booleans(),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_shards_come_back_exactly_if_a_majority_is_left(
    primaries: int, share: float, seed: int, ranked: bool
) -> None:
    rules = FailoverRules(primaries=primaries, node_timeout_s=5.0, ranked=ranked)
    failed = round(share * primaries)
    found = fail_over(rules, failed, seed=seed)
    majority = primaries - failed >= rules.quorum
    assert len(found.recovered_s) == failed
    assert np.all(np.isfinite(found.recovered_s)) == (majority or failed == 0)
    if failed and majority:
        assert np.all(found.recovered_s > found.failed_s)
        assert found.elections >= failed


def test_half_of_the_primaries_is_too_many() -> None:
    found = fail_over(FailoverRules(primaries=10), 5)
    assert np.all(np.isinf(found.recovered_s))
    with pytest.raises(ValueError, match="at most"):
        fail_over(FailoverRules(primaries=10), 11)


def test_ranks_save_elections_that_would_split_the_vote() -> None:
    def run(ranked: bool) -> list[Failover]:
        rules = FailoverRules(primaries=101, ranked=ranked)
        return [fail_over(rules, 45, seed=seed) for seed in range(3)]

    with_ranks, without = run(True), run(False)
    assert np.mean([f.elections for f in with_ranks]) < np.mean([f.elections for f in without])


def test_a_shorter_timeout_is_noticed_sooner() -> None:
    times = [
        fail_over(FailoverRules(primaries=50, node_timeout_s=timeout), 5).recovered_s.max()
        for timeout in (2.0, 15.0, 60.0)
    ]
    assert times == sorted(times)
    assert times[0] < 2 * 2.0 + 8.0


# --- detection ------------------------------------------------------------------------------------

SMALL = FailoverRules(primaries=3, node_timeout_s=5.0)


@pytest.mark.parametrize("seed", range(8))
def test_a_node_that_is_gone_is_pinged_within_half_a_timeout(seed: int) -> None:
    found = fail_over(SMALL, 1, seed=seed)
    assert 5.0 < found.suspected_s < 7.5 + 0.2
    # A report has to come as well, with a ping or pong of the other primary.
    assert found.suspected_s < found.failed_s[0] < 7.5 + 2.5


def test_news_of_pongs_postpones_the_next_ping() -> None:
    """Among few nodes pongs are as old as half the timeout at most, a quarter in the mean, where
    nobody hears of others': then half of the nodes would suspect at 6.25 s, and all at 7.5 s."""
    found = [fail_over(SMALL, 1, seed=seed).failed_s[0] for seed in range(40)]
    assert 6.5 < float(np.mean(found)) < 8.0


def test_replicas_are_declared_failed_and_nobody_is_elected() -> None:
    found = fail_over(FailoverRules(primaries=3, replicas=2, node_timeout_s=2.0), 0, replicas=2)
    assert len(found.recovered_s) == found.elections == 0
    assert np.all(np.isfinite(found.replicas_failed_s))
    assert np.all(found.replicas_failed_s > found.suspected_s)


@given(
    primaries=st.integers(1, 9), replicas=st.integers(0, 2), failed=st.integers(0, 9),
    away=st.integers(0, 9), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_fail_takes_a_majority_of_all_primaries_dead_ones_included(
    primaries: int, replicas: int, failed: int, away: int, seed: int
) -> None:
    failed, away = min(failed, primaries), min(away, max(0, primaries - failed))
    rules = FailoverRules(primaries=primaries, replicas=replicas, node_timeout_s=1.0)
    found = fail_over(rules, failed, away=away, seed=seed)
    majority = primaries - away - failed >= primaries // 2 + 1
    if failed:
        assert np.all(np.isfinite(found.failed_s) == majority)
        assert np.all(np.isfinite(found.recovered_s) == (majority and replicas > 0))
    watchers = primaries - away - failed + primaries * replicas
    no_majority = failed > 0 and watchers > 0 and primaries - away >= primaries // 2 + 1
    assert np.isfinite(found.minority_s) == (no_majority and not majority)


def test_a_sample_stands_for_many_nodes() -> None:
    """With the same shares of failed ones, however many nodes there are."""

    def declared(primaries: int) -> float:
        rules = FailoverRules(primaries=primaries, node_timeout_s=5.0)
        runs = [fail_over(rules, primaries // 10, seed=seed) for seed in range(4)]
        return float(np.mean([run.failed_s.mean() for run in runs]))

    assert declared(2 * MOST_NODES) == pytest.approx(declared(MOST_NODES // 2), rel=0.06)


# --- elections ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "version", "least", "most"),
    [
        ("redis", "7.0.15", 0.5, 1.2),
        ("redis", "8.6", 0.5, 1.2),
        ("valkey", "8.0", 0.5, 1.2),
        ("valkey", "8.1", 0.5, 1.2),
        ("valkey", "9.1", 0.0, 0.02),
    ],
)
def test_how_long_a_replica_waits(engine: str, version: str, least: float, most: float) -> None:
    rules = rules_for(engine, version, primaries=5, node_timeout_s=3.0)
    for seed in range(6):
        found = fail_over(rules, 1, seed=seed)
        assert least <= found.recovered_s[0] - found.failed_s[0] <= most


def test_failed_primaries_take_turns_from_8_1_on() -> None:
    def waits(version: str) -> np.ndarray:
        rules = rules_for("valkey", version, primaries=40, node_timeout_s=2.0)
        runs = [fail_over(rules, 12, seed=seed) for seed in range(4)]
        return np.concatenate([run.recovered_s - run.failed_s for run in runs])

    # With a rank each half a second later, unless others are back before; without one the votes
    # may be split, and then a replica tries again four timeouts later.
    together, in_turn = waits("8.0"), waits("8.1")
    assert np.median(in_turn) > 1.2 * np.median(together)
    assert np.quantile(together, 0.9) < 1.15 < np.quantile(in_turn, 0.9)
    assert in_turn.max() < 3.0 < together.max()


def test_without_a_replica_that_is_left_nobody_is_elected() -> None:
    found = fail_over(SMALL, 1, electable=[0])
    assert np.isfinite(found.failed_s[0])
    assert np.isinf(found.recovered_s[0])


def test_an_election_that_failed_is_repeated_after_four_timeouts_before_8_1() -> None:
    """Of 31 primaries that are left of 60 every vote is needed; two requests at a time split it."""
    rules = rules_for("redis", "7.0", primaries=60, node_timeout_s=2.0, one_way_s=0.05)
    waits = [fail_over(rules, 29, seed=seed) for seed in range(3)]
    assert all(run.elections > 29 for run in waits)
    longest = max(float((run.recovered_s - run.failed_s).max()) for run in waits)
    assert longest > rules.retry_s == 8.0
    assert FailoverRules(primaries=3, node_timeout_s=0.5).retry_s == 4.0
