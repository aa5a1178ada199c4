"""Open loops whose rate changes: in given pieces, in bursts, or as a file recorded it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import Field

from forecache.hwprofiles.files import read_text
from forecache.hwprofiles.record import Record as _Record
from forecache.sim.errors import InputError

_PS_PER_S = 10**12

MOST_TRACED = 1_000_000
"""Rows of a trace."""

LONGEST_TRACE_S = 86_400.0


class RatePiece(_Record):
    """A rate of requests that holds for a time."""

    duration_s: float = Field(ge=1e-6, le=86_400)
    """How long this rate lasts."""
    rate_rps: float = Field(ge=0, le=1e8)
    """Requests a second meanwhile."""


class Bursts(_Record):
    """Two rates that take turns at random: a Markov-modulated Poisson process of two states.

    `calm_s` and `burst_s` are how long each state lasts on average.
    """

    calm_rps: float = Field(ge=0, le=1e8)
    """Requests a second between bursts."""
    burst_rps: float = Field(gt=0, le=1e8)
    """Requests a second within one."""
    calm_s: float = Field(ge=1e-6, le=86_400)
    """Mean time between bursts."""
    burst_s: float = Field(ge=1e-6, le=86_400)
    """Mean length of a burst."""

    @property
    def mean_rate_rps(self) -> float:
        """Over all time."""
        requests = self.calm_rps * self.calm_s + self.burst_rps * self.burst_s
        return requests / (self.calm_s + self.burst_s)


@dataclass(frozen=True)
class ArrivalTrace:
    """Requests of a file: when each falls due, from the first one on, and its command.

    Attributes
    ----------
    period_ps
        Time after which it begins again: one mean gap behind the last request.
    """

    due_ps: np.ndarray
    commands: tuple[str, ...]
    period_ps: int

    @property
    def mean_rate_rps(self) -> float:
        """Over a period."""
        return len(self.due_ps) / self.period_ps * _PS_PER_S


def read_trace(file: str) -> ArrivalTrace:
    """Read a CSV file of times in seconds, in order, and commands.

    Raises
    ------
    InputError
        The file or one of its lines is no such thing; names the line.
    """
    path = Path(file)
    changed_ns = path.stat().st_mtime_ns if path.is_file() else 0
    return _read_trace(file, changed_ns)


@lru_cache(maxsize=8)
def _read_trace(file: str, changed_ns: int) -> ArrivalTrace:
    del changed_ns  # part of the cache's key
    times_s: list[float] = []
    commands: list[str] = []
    for number, line in enumerate(read_text(Path(file)).splitlines(), start=1):
        words = [word.strip() for word in line.split(",")]
        if not line.strip() or (number == 1 and words == ["time_s", "command"]):
            continue
        where = f"{file}, line {number}"
        if len(words) != 2 or not words[1].isalpha():
            raise InputError(f"{where}: found {line!r}; valid is `seconds,command`.")
        time_s = _seconds(words[0], where)
        if times_s and time_s < times_s[-1]:
            raise InputError(
                f"{where}: found time {time_s:g} after {times_s[-1]:g}; valid are times in order."
            )
        times_s.append(time_s)
        commands.append(words[1].lower())
        if len(times_s) > MOST_TRACED:
            raise InputError(f"{where}: found more than {MOST_TRACED} requests; valid are those.")
    if len(times_s) < 2 or times_s[-1] == times_s[0]:
        raise InputError(
            f"{file}: found {len(times_s)} requests at one time; valid are two at different times "
            "at least."
        )
    if times_s[-1] - times_s[0] > LONGEST_TRACE_S:
        raise InputError(f"{file}: found more than {LONGEST_TRACE_S:g} s; valid is a day at most.")
    due_ps = np.rint((np.array(times_s) - times_s[0]) * _PS_PER_S).astype(np.int64)
    gap_ps = max(1, round(int(due_ps[-1]) / (len(due_ps) - 1)))
    return ArrivalTrace(due_ps, tuple(commands), int(due_ps[-1]) + gap_ps)


def _seconds(word: str, where: str) -> float:
    try:
        time_s = float(word)
    except ValueError:
        time_s = math.nan
    if not 0.0 <= time_s < math.inf:
        raise InputError(f"{where}: found time {word!r}; valid are seconds from 0 on.")
    return time_s


@dataclass(frozen=True)
class Arrivals:
    """How requests of an open loop arrive, if not at a constant rate: at most one of the three."""

    profile: Sequence[RatePiece] | None = None
    bursts: Bursts | None = None
    trace: ArrivalTrace | None = None

    @property
    def mean_rate_rps(self) -> float | None:
        """Over all time; None if there is nothing."""
        if self.profile is not None:
            total_s = sum(piece.duration_s for piece in self.profile)
            return sum(piece.duration_s * piece.rate_rps for piece in self.profile) / total_s
        if self.bursts is not None:
            return self.bursts.mean_rate_rps
        return None if self.trace is None else self.trace.mean_rate_rps

    @property
    def cycle_ps(self) -> int:
        """Time after which it begins again, in bursts on average; 0: no need to look."""
        if self.profile is not None:
            return sum(round(piece.duration_s * _PS_PER_S) for piece in self.profile)
        if self.bursts is not None:
            return round((self.bursts.calm_s + self.bursts.burst_s) * _PS_PER_S)
        return 0 if self.trace is None else self.trace.period_ps

    def measured_ps(self, wanted_ps: int, *, most_ps: int) -> int:
        """Length of a window that holds whole cycles and, of random bursts, several."""
        if self.cycle_ps == 0:
            return wanted_ps
        cycles = math.ceil(wanted_ps / self.cycle_ps)
        if self.bursts is not None:
            cycles = max(cycles, min(_BURSTS, most_ps // self.cycle_ps))
        return max(1, cycles) * self.cycle_ps

    def tables(self, generators: int, codes: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Fields of `NodeTimes`.

        Parameters
        ----------
        generators
            Threads that share the requests.
        codes
            Of each command: its codes as often as they come, for the traced requests in turn.
        """
        pieces: list[tuple[float, float]] = []
        if self.profile is not None:
            pieces = [(piece.duration_s, piece.rate_rps) for piece in self.profile]
        elif self.bursts is not None:
            b = self.bursts
            pieces = [(b.calm_s, b.calm_rps), (b.burst_s, b.burst_rps)]
        tables: dict[str, list[int]] = {
            "piece_ps": [round(lasts_s * _PS_PER_S) for lasts_s, _ in pieces],
            "piece_gap_ps": [
                max(1, round(generators * _PS_PER_S / rate)) if rate > 0 else 0
                for _, rate in pieces
            ],
            "trace_due_ps": [],
            "trace_code": [],
        }
        found = {name: np.array(values, np.int64) for name, values in tables.items()}
        if self.trace is not None:
            found["trace_due_ps"] = self.trace.due_ps
            found["trace_code"] = np.array(
                [codes[c][row % len(codes[c])] for row, c in enumerate(self.trace.commands)],
                np.int64,
            )
        return found


_BURSTS = 40
"""Bursts of a window, if it may be that long."""
