"""Clients that learn of moves by being redirected, against simulations of single clients."""

import math

import numpy as np
import pytest

from evidence.validation.dip import drawing_mean, drawing_s
from forecache.models.over_time.cluster.slots import share_still_redirected


def test_redirects_while_slots_move_are_those_of_single_clients() -> None:
    # A client asks so often, each time of a slot of its own choice; 1 in 100 moves each second.
    requests_per_s, moved_per_s = 500.0, 0.01
    rng = np.random.default_rng(1)
    unknown = redirects = 0.0
    requests = 400_000
    draws = rng.random(requests)
    for draw in draws:
        unknown += moved_per_s / requests_per_s
        if draw < unknown:
            redirects, unknown = redirects + 1, 0.0
    # Moves that a client does not know of grow with the time since it last learned of one, so the
    # time to the next redirection has Rayleigh's distribution.
    expected = math.sqrt(2.0 * moved_per_s / (math.pi * requests_per_s))
    assert redirects / requests == pytest.approx(expected, rel=0.05)


def test_what_moved_at_once_is_learned_the_sooner_the_more_is_asked() -> None:
    # u' = -r u u, in small steps.
    unknown, rate = 0.3, 200.0
    for _ in range(10_000):
        unknown -= rate * unknown**2 * 1e-5
    assert share_still_redirected(0.3, requests_per_s=rate, seconds=0.1) == pytest.approx(
        unknown, rel=0.01
    )
    assert share_still_redirected(0.3, requests_per_s=rate, seconds=0.0) == 0.3
    assert share_still_redirected(0.0, requests_per_s=rate, seconds=1.0) == 0.0


def test_threads_that_draw_keys_keep_what_their_rounds_leave() -> None:
    draw_s, request_s, moved_per_s, connections = 1.3e-7, 2e-5, 0.007, 4
    scale_s = drawing_s(
        moved_per_s=moved_per_s, draw_s=draw_s, request_s=request_s,
        connections_per_client=connections,
    )  # fmt: skip
    # A round of all connections of a client, and the draws for one of them.
    times_s = (np.arange(100_000) + 0.5) / 100_000
    draws = draw_s / (moved_per_s * times_s)
    kept = connections * request_s / (connections * request_s + draws)
    assert drawing_mean(scale_s, begin_s=0.0, end_s=1.0) == pytest.approx(kept.mean(), rel=1e-3)
    assert drawing_mean(0.0, begin_s=0.0, end_s=1.0) == 1.0
