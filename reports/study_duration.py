"""How long a study is going to take: from its design, and from what else the machine does."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.observe.design import Timing
from forecache.hwprofiles.capture.machine import busy_cpu_seconds

STEPS = ("profiling this host", "observing a real engine", "calibrating", "predicting")

_LOOK_S = 0.5
_BUSY = 0.15
"""CPUs that others may use before it is worth a word; /proc/stat counts in ticks of 10 ms."""

# On two idle CPUs of Zen 5, in seconds. What only waits takes no longer on a busy machine.
_PROFILE_S, _LONGEST_PROFILE_S = 30.0, 45.0
_WINDOW_S = 0.07
"""Around each window: setting up its clients, and looks at the cores."""
_SAMPLED_S = 0.9
"""More around a window in which threads spin, whose samples are read afterwards."""
_LEARNING_S = 7.0
"""To see what spinning threads look like."""
_KEYS_PER_S = 500_000.0
_DATA_SET_S = 0.4
_START_S = 1.2
_FIT_S, _FIT_POINT_S = 1.0, 0.08
_PREDICT_S, _SENSITIVITY_S = 12.0, 180.0


class OtherWork(NamedTuple):
    """CPUs that other programs use, of those this process may use."""

    used: float
    cpus: int

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return self.used / self.cpus


def others_cpus() -> OtherWork:
    """Look for half a second at what other programs use."""
    cpus = sorted(os.sched_getaffinity(0))
    busy_s, started_s = busy_cpu_seconds(cpus)[0], time.monotonic()
    time.sleep(_LOOK_S)
    used = (busy_cpu_seconds(cpus)[0] - busy_s) / (time.monotonic() - started_s)
    return OtherWork(min(float(len(cpus)), max(0.0, used)), len(cpus))


def expected_seconds(
    points: Sequence[Conditions], timing: Timing, *, busy_share: float, sensitivity: bool = False
) -> tuple[float, ...]:
    """About what each of `STEPS` takes, in seconds.

    Parameters
    ----------
    busy_share
        Of the CPUs' time, what other programs take, from 0 to 1. What computes takes up to twice as
        long beside them.
    """
    slower = 1.0 + busy_share
    windows_s = computed_s = 0.0
    for given in points:
        threaded = given.io_threads > 1
        warm_up_s = timing.io_warm_up_s if threaded else timing.warm_up_s
        window_s = timing.window_s if given.arrival == "closed_loop" else timing.loaded_window_s
        windows_s += timing.repetitions * (warm_up_s + window_s + _WINDOW_S)
        computed_s += timing.repetitions * _SAMPLED_S if threaded else 0.0
    sets = {given.data_set: given for given in points}.values()
    computed_s += sum(_DATA_SET_S + given.keys / _KEYS_PER_S for given in sets)
    computed_s += _LEARNING_S if any(given.io_threads > 1 for given in points) else 0.0
    starts_s = timing.starts * _START_S
    return (
        # Half of it waits, or runs on one CPU.
        min(_PROFILE_S * (1.0 + busy_share / 2), _LONGEST_PROFILE_S),
        min(windows_s + computed_s * slower, timing.longest_s) + starts_s,
        (_FIT_S + _FIT_POINT_S * len(points)) * slower,
        (_PREDICT_S + (_SENSITIVITY_S if sensitivity else 0.0)) * slower,
    )


def expected_words(step_s: Sequence[float], others: OtherWork) -> str:
    """How long the study takes, and what makes it longer."""
    said = f"this takes about {rough(sum(step_s))}"
    if others.used < _BUSY:
        return said
    return f"{said}, since other programs use {others.used:.1f} of {others.cpus} CPUs"


def rough(seconds: float) -> str:
    """Seconds as a person would say them, to five seconds and from two minutes on to ten."""
    step = 5 if seconds < 120.0 else 10
    whole = max(step, step * math.ceil(seconds / step - 0.5))
    minutes, rest = divmod(whole, 60)
    words = [f"{minutes} min"] if minutes else []
    return " ".join([*words, f"{rest} s"] if rest else words)
