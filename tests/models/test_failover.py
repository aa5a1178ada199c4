"""Failover: votes, quorum, ranks, and what was published of a thousand primaries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forecache.models.over_time.cluster.failover import Failover, FailoverRules, fail_over

LARGE = FailoverRules(primaries=1000)


def test_one_primary_takes_its_timeout_a_majority_and_an_election() -> None:
    found = fail_over(LARGE, 1, seed=5)
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
