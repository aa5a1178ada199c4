"""Telling waiting apart: from samples made up, and from a server that spins."""

import math
import time
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from forecache.calibration.drive.servers import EngineThread
from forecache.calibration.observe import spinning
from forecache.calibration.observe.spinning import (
    KERNEL,
    PLACE_BYTES,
    Places,
    Waiting,
    samples_of,
    shares_of,
)

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


def test_a_program_that_is_loaded_elsewhere_waits_at_the_same_places_in_it() -> None:
    away = 0x5000_0000
    known = kind(LOOP, LOOP_WORK)
    whole = mixed(LOOP, LOOP_WORK, 0.3)
    shifted: Places = Counter(
        {p if p >= KERNEL else p + away // PLACE_BYTES: n for p, n in whole.items()}
    )
    assert known.moved(away).share(shifted) == pytest.approx(known.share(whole))
    assert known.moved(away).moved(-away) == known


def test_polls_are_told_by_the_kernels_symbols() -> None:
    kernel = "ffffffff81000000"
    text = (
        f"71 {kernel} tcp_poll\n71 {kernel} ep_item_poll.isra.0\n71 {kernel} tcp_sendmsg\n"
        f"71 {kernel} ep_poll_callback\n"
        f"71 55d0c0000010 epoll_wait\n72 {kernel} __x64_sys_epoll_wait\n"
    )
    samples = samples_of(text)
    # The C library's epoll_wait is entered for main threads as well; only the kernel's count.
    assert samples.polling_share(71) == pytest.approx(0.4)
    assert samples.polling_share(72) == 1.0
    assert samples.polling_share(73) == 0.0
    assert samples_of("71 ffffffff81000000\n").polling_share(71) is None
    assert samples_of("71 ffffffff81000000 [unknown]\n").polling_share(71) is None


def test_what_a_poll_calls_is_a_poll_as_well() -> None:
    stacks = [
        ["ffffffff81000000 fput", "ffffffff81000010 do_epoll_wait", "10 epoll_wait"],
        ["20 aePoll", "30 IOThreadMain"],
        ["ffffffff81000020 tcp_sendmsg", "20 aePoll"],
        ["40 [unknown]"],
    ]
    # In stacks perf prints addresses of a program as they are in its file.
    flat = "".join(f"  71  {'' if 'f' * 8 in s[0] else '55d0c00000'}{s[0]}\n" for s in stacks)
    text = "".join("   71 \n" + "".join(f"\t{f}\n" for f in stack) + "\n" for stack in stacks)
    samples = samples_of(flat, text)
    assert samples.polling_share(71) == pytest.approx(2 / 4)
    assert samples.places[71] == {
        0xFFFFFFFF81000000 // 16: 1,
        0xFFFFFFFF81000020 // 16: 1,
        0x55D0C0000020 // 16: 1,
        0x55D0C0000040 // 16: 1,
    }


def test_looks_at_clients_with_jobs_are_waiting() -> None:
    known = kind(TURNS, TURNS_WORK)
    elsewhere = mixed(TURNS, TURNS_WORK, 0.4)
    lines = [f"71 {p * PLACE_BYTES:x} f" for p, n in elsewhere.items() for _ in range(n)]
    looks = ["71 55d0c0000010 processIOThreadsWriteDone"] * len(lines)
    samples = samples_of("\n".join([*lines, *looks]))
    assert samples.waiting_share(71, known) == pytest.approx((0.4 + 1.0) / 2, abs=0.02)
    assert samples_of(looks[0]).waiting_share(71, known) == 1.0
    assert math.isnan(samples.waiting_share(72, known))


def test_what_threads_do_is_told_in_their_order() -> None:
    threads = [EngineThread(71, "server", "main"), EngineThread(72, "io_thd_1", "io")]
    waiting = {"main": kind(TURNS, TURNS_WORK), "io": kind(LOOP, LOOP_WORK)}
    lines = [f"72 {place * PLACE_BYTES:x} spin" for place in LOOP for _ in range(6)]
    lines += ["72 ffffffff81000000 tcp_poll"] * 6
    found = shares_of(waiting, samples_of("\n".join(lines)), threads)
    assert math.isnan(found.main[0])
    assert found.io == pytest.approx([18 / 24])
    assert found.io_polling == pytest.approx([6 / 24])


def test_threads_that_never_wait_awake_are_looked_for_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Valkey 9.1 may put its only I/O thread to sleep whenever the main thread gets no core."""
    monkeypatch.setattr(spinning, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(spinning, "_SETTLE_S", 0.01)
    monkeypatch.setattr(spinning, "_starving", lambda *_: nullcontext())
    monkeypatch.setattr(spinning, "_cores_used", lambda *_: {"main": 1.0, "io": 0.0})
    process = SimpleNamespace(threads=list)
    cores = {"main": frozenset({0}), "io": frozenset({1}), "generator": frozenset({1})}
    started_s = time.monotonic()
    found = spinning._waiting_places(process, cores, role="io", other="main")
    assert found is None
    assert 0.2 <= time.monotonic() - started_s < 2.0
