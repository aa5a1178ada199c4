"""Telling waiting apart: from samples made up, and from a server that spins."""

import math
from collections import Counter

import numpy as np
import pytest

from forecache.calibration.observe.spinning import KERNEL, Places, Waiting, samples_of

LOOP: Places = Counter({100: 700, 101: 250, 102: 50})
"""Samples of a thread that waits in a loop of a few lines."""

TURNS: Places = Counter(dict.fromkeys(range(200, 220), 40) | {300: 200})
"""Of one that goes round its event loop; at 300 is something that work uses as well."""


def mixed(waiting: Places, work: Places, share: float, samples: int = 10_000) -> Places:
    """Samples of a thread that waits for a share of its time."""
    found: Places = Counter()
    for places, part in ((waiting, share), (work, 1.0 - share)):
        for place, count in places.items():
            found[place] += round(samples * part * count / places.total())
    return found


LOOP_WORK: Places = Counter({KERNEL: 500, 7: 300, 8: 200})
TURNS_WORK: Places = Counter({300: 300, 7: 400, KERNEL: 300})


def kind(waiting: Places, work: Places) -> Waiting:
    """As learnt from a thread that works half of its time."""
    found = Waiting.of(waiting, mixed(waiting, work, 0.5))
    assert found is not None
    return found


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_loop_is_waiting_and_nothing_else(share: float) -> None:
    found = kind(LOOP, LOOP_WORK).share(mixed(LOOP, LOOP_WORK, share))
    assert found == pytest.approx(share, abs=0.01)


def test_a_loop_may_be_spent_elsewhere_in_it() -> None:
    """Where in a loop samples fall depends on what the processor waits for."""
    other: Places = Counter({100: 200, 101: 100, 102: 700})
    found = kind(LOOP, LOOP_WORK).share(mixed(other, LOOP_WORK, 0.6))
    assert found == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_what_work_uses_as_well_is_not_all_waiting(share: float) -> None:
    found = kind(TURNS, TURNS_WORK).share(mixed(TURNS, TURNS_WORK, share))
    assert found == pytest.approx(share, abs=0.02)


def test_few_samples_are_not_biased() -> None:
    random = np.random.default_rng(3)
    known, found = kind(TURNS, TURNS_WORK), []
    whole = mixed(TURNS, TURNS_WORK, 0.6)
    places, counts = np.array(list(whole)), np.array(list(whole.values()), float)
    for _ in range(200):
        drawn = random.choice(places, size=100, p=counts / counts.sum())
        found.append(known.share(Counter(drawn.tolist())))
    assert np.mean(found) == pytest.approx(0.6, abs=0.03)


def test_a_thread_that_waits_with_less_to_look_through_waits_all_the_same() -> None:
    """Turns that go through a list are longer while all clients are in it."""
    scans: Places = Counter(dict.fromkeys(range(400, 405), 60))
    full: Places = TURNS + scans
    shorter: Places = TURNS + Counter({place: count // 4 for place, count in scans.items()})
    known = Waiting.of(full, mixed(shorter, TURNS_WORK, 0.5))
    assert known is not None
    assert known.share(mixed(shorter, TURNS_WORK, 0.7)) == pytest.approx(0.7, abs=0.03)


def test_without_samples_nothing_is_known() -> None:
    assert math.isnan(kind(LOOP, LOOP_WORK).share(Counter()))
    assert Waiting.of(Counter(), LOOP) is None
    assert Waiting.of(LOOP, Counter()) is None


def test_samples_are_counted_by_thread_and_place() -> None:
    text = "  71  55d0c0000010\n  71  55d0c000001f\n 72 ffffffff81000000\nnoise\n"
    found = samples_of(text).places
    assert found[71] == {0x55D0C0000010 // 16: 2}
    assert found[72] == {0xFFFFFFFF81000000 // 16: 1}
    assert min(found[72]) >= KERNEL > max(found[71])
