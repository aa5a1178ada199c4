"""How probable it is that an objective is met, and what draws can tell of that: closed forms."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from forecache.models.advice.answers import load_cases
from forecache.models.advice.objective import (
    NETWORK_FULL,
    network_limit_chances,
    probability,
    share_met,
    steps_to,
)
from forecache.models.plan import trials as chances
from forecache.models.plan.trials import MOST_DRAWS, Chance, objective_chance, proportion_interval
from forecache.models.prediction.predict import Prediction, predict_cases
from forecache.models.prediction.uncertainty import moved

# --- what a number of draws can tell --------------------------------------------------------------


@given(st.integers(1, 2000))
def test_draws_that_all_agree_leave_what_so_few_would_miss(count: int) -> None:
    """z² / (n + z²) of the draws may be of the other kind."""
    z2 = 1.959963984540054**2
    low, high = proportion_interval(1.0, count)
    assert (low, high) == (pytest.approx(count / (count + z2)), pytest.approx(1.0))
    mirrored = proportion_interval(0.0, count)
    assert mirrored == (pytest.approx(0.0, abs=1e-12), pytest.approx(z2 / (count + z2)))


@pytest.mark.parametrize("count", [20, 40, 160])
@pytest.mark.parametrize("truth", [0.5, 0.8, 0.9, 0.95])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(count: int, truth: float) -> None:
    covered = sum(
        binom.pmf(hits, count, truth)
        for hits in range(count + 1)
        if proportion_interval(hits / count, count)[0]
        <= truth
        <= proportion_interval(hits / count, count)[1]
    )
    assert 0.92 <= covered <= 0.985


@pytest.mark.parametrize(
    ("low", "high", "misses", "is_open"),
    [(0.91, 0.99, False, False), (0.80, 0.89, True, False), (0.85, 0.95, False, True)],
)
def test_draws_tell_what_lies_on_one_side_of_their_interval(
    low: float, high: float, misses: bool, is_open: bool
) -> None:
    chance = Chance(0.5 * (low + high), low, high, 20)
    assert (chance.misses(0.9), chance.is_open(0.9)) == (misses, is_open)


# --- what the network carries ---------------------------------------------------------------------

NODE: dict[str, Any] = {
    "host": "r7g.2xlarge",
    "engine": "valkey",
    "engine_version": "9.1",
    "io_threads": 6,
    "workload": {
        "arrival": "open_loop",
        "rate_rps": 560_000,
        "clients": 500,
        "mix": {"get": 0.8, "set": 0.2},
        "keys": 40_000_000,
        "value_bytes": 300,
    },
    "load_generator": {"threads": 64},
    "slo": {"p99_ms": 1.0, "probability": 0.9},
}


def predicted(*, draws: int = 20, seed: int = 1, **workload: Any) -> Prediction:
    node = NODE | {"workload": NODE["workload"] | workload}
    [found] = predict_cases(
        load_cases(node), seed=seed, draws=draws, replications=1, requests=5_000
    )
    return found


@given(low=st.floats(0.1, 0.9), high=st.floats(1.1, 10.0), z=st.floats(-4.0, 4.0))
def test_the_steps_to_a_value_are_those_that_move_a_number_there(
    low: float, high: float, z: float
) -> None:
    bounds = low, 1.0, high
    assert steps_to(bounds, moved(bounds, z)) == pytest.approx(z, abs=1e-9)


def test_what_the_network_carries_is_the_share_of_the_draws_whose_limit_is_enough() -> None:
    prediction = predicted(draws=2)
    [packets] = [
        limit for limit in network_limit_chances(prediction) if limit.leaf.endswith("packets_per_s")
    ]
    nominal = prediction.system.numbers().speed.network_packets_per_s
    # A packet of each request and one of its reply.
    assert packets.needed == pytest.approx(2 * 560_000 / NETWORK_FULL, rel=0.002)
    spread = math.log(nominal / packets.low) / 1.959963984540054
    z = math.log(packets.needed / nominal) / spread
    assert packets.carries == pytest.approx(ndtr(-z))
    drawn = [
        prediction.system.numbers(draw=n, seed=7).speed.network_packets_per_s for n in range(2000)
    ]
    enough = np.mean(np.array(drawn) >= packets.needed)
    assert enough == pytest.approx(packets.carries, abs=0.015)


def test_a_probability_does_not_hang_on_whether_a_draw_has_a_slow_network() -> None:
    """Of 20 draws none to four do: the mean over them was 80 to 100%."""
    found, plain = [], []
    for seed in range(1, 7):
        prediction = predicted(seed=seed)
        found.append(probability(prediction, capacity_rps=1.1e6) or 0.0)
        shares = [share_met(prediction, run, capacity_rps=1.1e6) for run in prediction.drawn]
        plain.append(np.mean([share or 0.0 for share in shares]))
    assert np.ptp(found) < 0.01
    assert np.ptp(plain) > 0.04
    assert np.mean(found) == pytest.approx(np.mean(plain), abs=0.03)


def test_no_more_is_drawn_where_all_draws_stay_far_from_every_bound() -> None:
    far = objective_chance(predicted(rate_rps=100_000), capacity_rps=1.1e6, asked=0.99, seed=1)
    assert far.draws == 20
    assert far.low >= 0.99
    assert far.cause == ""


def test_the_network_is_named_where_it_makes_draws_miss() -> None:
    prediction = predicted(rate_rps=800_000)
    missed = objective_chance(prediction, capacity_rps=1.1e6, asked=0.95, seed=1)
    assert missed.misses(0.95)
    limit = "what the network carries in packets a second"
    assert missed.cause.startswith(f"missed if {limit} is below ")


# --- other numbers --------------------------------------------------------------------------------


@pytest.fixture
def normal_shares(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Draws of a made-up system: share `n % 16 != 3` of them meet; which were asked for."""
    asked: list[int] = []

    def drawn_runs(_: Any, numbers: range, *, seed: int) -> list[int]:
        assert seed == 5
        asked.extend(numbers)
        return list(numbers)

    monkeypatch.setattr(chances, "drawn_runs", drawn_runs)
    monkeypatch.setattr(chances, "network_limit_chances", lambda _: [])
    monkeypatch.setattr(chances, "share_met", lambda _, run, **__: float(run % 16 != 3))
    monkeypatch.setattr(chances, "_most_that_miss", lambda *_: 1.0)
    monkeypatch.setattr(chances, "_cause", lambda *_: "x")
    return asked


def made_up(draws: int = 20) -> Any:
    return SimpleNamespace(drawn=list(range(draws)))


def test_more_is_drawn_until_the_draws_tell(normal_shares: list[int]) -> None:
    """15 of 16 meet it: 80% is known at once, 85% after some, 94% never."""
    sure = objective_chance(made_up(), capacity_rps=1.0, asked=0.6, seed=5)
    assert (sure.draws, sure.low > 0.6, normal_shares) == (20, True, [])
    later = objective_chance(made_up(), capacity_rps=1.0, asked=0.85, seed=5)
    assert later.low >= 0.85
    assert 20 < later.draws <= MOST_DRAWS
    assert normal_shares == list(range(20, later.draws))
    never = objective_chance(made_up(), capacity_rps=1.0, asked=0.94, seed=5)
    assert (never.draws, never.is_open(0.94), never.cause) == (MOST_DRAWS, True, "x")


def steps_of(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    names = [f"host.n{n}" for n in range(100)]
    return names, np.random.default_rng(seed).standard_normal((count, 100))


def test_the_number_that_makes_draws_miss_is_named() -> None:
    names, steps = steps_of(80, seed=3)
    misses = (steps[:, 17] + 0.3 * steps[:, 40] > 1.3).astype(float)
    system = SimpleNamespace(drawn_steps=lambda *_, **__: (names, steps))
    said = chances._correlated(SimpleNamespace(system=system), misses, 1)  # type: ignore[arg-type]
    assert said == "missed above all where host.n17 is high"


def test_chance_alone_names_no_number() -> None:
    named = 0
    for seed in range(100):
        names, steps = steps_of(80, seed=seed)
        misses = (np.random.default_rng(1000 + seed).random(80) < 0.15).astype(float)
        system = SimpleNamespace(drawn_steps=lambda *_, f=(names, steps), **__: f)
        made = SimpleNamespace(system=system)
        named += bool(chances._correlated(made, misses, 1))  # type: ignore[arg-type]
    assert named <= 6
