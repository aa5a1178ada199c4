"""Interruptions by the host: what they do to latency, and where they come from."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from forecache.hwprofiles import load_host
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.node.policies import POLICIES
from forecache.models.node.setup import JITTER_ONE, QUANTILES
from forecache.models.node.simulate import NodeResult, simulate_node
from forecache.models.step_times.cores import (
    LONGEST_INTERRUPTION_US,
    interruption_gap_ps,
    interruption_table_ps,
)
from forecache.sim.errors import InputError
from verification.nodes.sample_node import sample_setup, sample_times

US = 1_000_000
RATE_PER_S = 100
DURATION_US = 100.0


@cache
def interrupted(
    *, busy_share: float, rate_per_s: int, duration_us: float = DURATION_US, seed: int = 1
) -> NodeResult:
    """A lone server thread, busy by many small requests, and a generator that costs nothing.

    A request costs 0.25 us to read and execute; all else is free.
    """
    service_ps = US // 4
    free = (
        *("loop", "poll", "poll_event", "doze", "block", "read_event", "recv", "send"),
        *("write_event", "generator_poll_event", "generator_reply", "generator_request"),
    )
    # Not quite free, because a step of no duration suffers no interruption.
    nearly_free = ("generator_poll", "generator_recv", "generator_send", "one_way", "wake_latency")
    times = sample_times(
        **{f"{step}_ps": 0 for step in free},
        **{f"{step}_ps": 1 for step in nearly_free},
        recv_ps_per_kib=0,
        send_ps_per_kib=0,
        wire_ps_per_kib=0,
        parse_by_code_ps=np.zeros(2, np.int64),
        execute_by_code_ps=np.full(2, service_ps),
        stall_ps=np.zeros((2, QUANTILES), np.int64),
        jitter=np.full(QUANTILES, JITTER_ONE),
        interruption_ps=np.full(QUANTILES, round(duration_us * US)),
    )
    generators = 64
    setup = sample_setup(
        clients=512,
        generators=generators,
        open_loop=1,
        outstanding_limit=64,
        mean_interarrival_ps=round(service_ps / busy_share) * generators,
        interruption_gap_ps=10**12 // rate_per_s if rate_per_s else 0,
        warmup_ps=10**10,
        end_ps=2 * 10**12,
        series_ps=10**11,
        seed=seed,
    )
    return simulate_node("single_thread", times, setup)


def excess_share(wait_us: float, busy_share: float) -> float:
    """Share of requests that interruptions delay by more than `wait_us`.

    A request that falls due while its generator thread is interrupted waits for the rest of that,
    which is longer than w for D - w of every interruption; replies come back at once, so they meet
    no other. What reaches the interrupted server waits to its end; what came meanwhile, work for
    u D, is read in one go and answered together after (1 + u) D. What came in that time, after
    another u^2 D, and so on: the k-th group arrives over u^k D and is answered u^(k+1) D after the
    last of it.
    """
    groups = DURATION_US * busy_share ** np.arange(20)
    served = np.clip((1 + busy_share) * groups - wait_us, 0.0, groups).sum()
    return RATE_PER_S * 1e-6 * (served + max(0.0, DURATION_US - wait_us))


@pytest.mark.parametrize("busy_share", [0.1, 0.5])
def test_interruptions_decide_the_99th_percentile(busy_share: float) -> None:
    quiet = interrupted(busy_share=busy_share, rate_per_s=0)
    loud = interrupted(busy_share=busy_share, rate_per_s=RATE_PER_S)
    waits_us = np.arange(0.0, 2 * DURATION_US, 0.05)
    shares = np.array([excess_share(wait_us, busy_share) for wait_us in waits_us])
    expected_us = waits_us[np.argmax(shares < 0.01)]
    assert 50.0 < expected_us < 80.0
    # The window holds 200 interruptions of the server, so the tail is known to 7%.
    base_us = quiet.latency.quantile(0.5) / US
    assert quiet.latency.quantile(0.99) / US < 10.0
    assert loud.latency.quantile(0.99) / US == pytest.approx(expected_us + base_us, rel=0.08)
    # Nothing is lost, and half of all requests hardly notice.
    assert loud.throughput_rps == pytest.approx(quiet.throughput_rps, rel=1e-3)
    assert loud.latency.quantile(0.5) / US == pytest.approx(base_us, abs=0.2)


def test_the_thread_pays_for_interruptions_with_cpu_time() -> None:
    """Of a busy thread: the share of time they take. One that sleeps pays only for their rest."""
    quiet = interrupted(busy_share=0.5, rate_per_s=0)
    loud = interrupted(busy_share=0.5, rate_per_s=2000, duration_us=50.0)
    added = loud.main_thread_utilisation - quiet.main_thread_utilisation
    assert added == pytest.approx(2000 * 50e-6, rel=0.1)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_saturated_thread_has_that_much_less_time(policy: str) -> None:
    usual: dict[str, Any] = {"clients": 64, "generators": 16, "end_ps": 4 * 10**11}
    if policy != "single_thread":
        usual |= {"io_threads": 2, "initial_active": 2, "events_per_io_thread": 0}
    times = sample_times(interruption_ps=np.full(QUANTILES, 20 * US))
    quiet = simulate_node(policy, times, sample_setup(**usual))
    loud = simulate_node(policy, times, sample_setup(interruption_gap_ps=200 * US, **usual))
    # One interruption of 20 us every 200 us: 11/10 of the work for the same requests.
    ratio = loud.throughput_rps / quiet.throughput_rps
    if policy == "fork_join":
        # While both write, the main thread waits for an interrupted I/O thread as well.
        assert 0.8 < ratio < 0.9
    else:
        assert ratio == pytest.approx(0.9, abs=0.03)


def test_without_a_gap_the_table_is_of_no_effect() -> None:
    setup = sample_setup(end_ps=10**10)
    long = sample_times(interruption_ps=np.full(QUANTILES, 10**9))
    results = [simulate_node("single_thread", times, setup) for times in (sample_times(), long)]
    assert results[0].counters == results[1].counters
    assert results[0].latency == results[1].latency
    assert results[0].main_thread_utilisation == results[1].main_thread_utilisation


def test_interruptions_without_end_are_refused() -> None:
    times = sample_times(interruption_ps=np.full(QUANTILES, US))
    with pytest.raises(ValueError, match="leave no time"):
        simulate_node("single_thread", times, sample_setup(interruption_gap_ps=US))


# --- from a measured curve ------------------------------------------------------------------------


def with_interruptions(*points: tuple[float, float]) -> HostSpeed:
    return replace(load_host("graviton3").speed(), interruptions=points)


def test_catalogue_hosts_have_none() -> None:
    speed = load_host("graviton3").speed()
    assert speed.interruptions == ()
    assert interruption_gap_ps(speed) == 0
    assert not interruption_table_ps(speed).any()


def test_the_table_has_the_rates_of_the_curve() -> None:
    points = ((5.0, 500.0), (10.0, 400.0), (50.0, 100.0), (1000.0, 20.0), (5000.0, 2.0))
    speed = with_interruptions(*points)
    # Those of a millisecond and more are left out.
    assert interruption_gap_ps(speed) == pytest.approx(1e12 / 480)
    table_us = interruption_table_ps(speed) / US
    assert (np.diff(table_us) >= 0.0).all()
    assert table_us[0] >= 5.0
    assert table_us[-1] <= LONGEST_INTERRUPTION_US
    for duration_us, rate in points[:4]:
        found = 480 * np.mean(table_us >= duration_us) + 20
        assert found == pytest.approx(rate, abs=480 / QUANTILES)


def test_a_core_that_others_mostly_have_is_refused() -> None:
    # 100,000 a second, equally likely between 5 and 10 us on the scale of logarithms.
    mean_us = 5.0 / np.log(2.0)
    with pytest.raises(InputError, match=f"take {mean_us / 10:.0%} of a core's time"):
        interruption_gap_ps(with_interruptions((5.0, 100_000.0), (10.0, 0.0)))
    assert interruption_gap_ps(with_interruptions((5.0, 50_000.0), (10.0, 0.0))) == 20 * US


@given(
    steps=st.lists(st.floats(1.0, 100.0), min_size=1, max_size=8),
    falls=st.lists(st.floats(0.0, 300.0), min_size=9, max_size=9),
)
def test_the_mean_is_that_of_the_curve(steps: list[float], falls: list[float]) -> None:
    """Between two points, durations are equally likely on the scale of logarithms."""
    durations_us = np.cumsum([5.0, *steps])
    rates = np.cumsum(falls[: len(durations_us)])[::-1]
    speed = with_interruptions(*zip(durations_us.tolist(), rates.tolist(), strict=True))
    table_us = interruption_table_ps(speed) / US
    assume(rates[0] - rates[-1] > 1.0)
    steps_us, falling = np.diff(durations_us), -np.diff(rates)
    means_us = steps_us / np.diff(np.log(durations_us))
    # What lasts longer than the curve goes is not in the table.
    expected_us = (falling * means_us).sum() / falling.sum()
    assert table_us.mean() == pytest.approx(expected_us, rel=0.01)
