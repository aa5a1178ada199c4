"""Rare commands that occupy the main thread for long: everybody behind them waits.

They are command codes of their own, too rare for the table of 1,024 slots that commands are drawn
from: a draw of 32 bits decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..node.setup import NodeTimes
from .inputs import NodeInputs
from .persistence import persistence_of

_PS_PER_MS = 10**9
_DRAW_RANGE = 1 << 32


@dataclass(frozen=True)
class Stall:
    """A command that keeps the main thread busy.

    Attributes
    ----------
    every_s
        Mean time from one to the next, or None where `share` is given.
    share
        Of the requests.
    fork
        Whether it is the fork of a snapshot, and no command of a client.
    """

    duration_ms: float
    every_s: float | None = None
    share: float | None = None
    fork: bool = False

    def share_at(self, rate_rps: float, *, saturated: bool) -> float:
        """The share of requests it is.

        Parameters
        ----------
        rate_rps
            Requests a second, without stalls where `saturated`.
        saturated
            Whether time lost is requests lost, as in a closed loop: then n stalls a second leave
            1 - n * duration of it.
        """
        if self.share is not None:
            return self.share
        assert self.every_s is not None
        left_s = self.every_s - (self.duration_ms / 1000.0 if saturated else 0.0)
        return min(1.0, 1.0 / (rate_rps * left_s))

    def mean_gap_s(self, rate_rps: float) -> float:
        """Time from one to the next at a rate of requests."""
        return self.every_s if self.share is None else 1.0 / (self.share * rate_rps)  # type: ignore[return-value]


def stalls_of(inputs: NodeInputs) -> list[Stall]:
    """What occupies the main thread for long now and then."""
    slow, kept = inputs.scenario.workload.slow_command, persistence_of(inputs.scenario)
    found = [] if slow is None else [Stall(slow.duration_ms, slow.every_s, slow.share)]
    if kept is not None and kept.snapshot is not None:
        # The fork that begins a snapshot: nothing is served meanwhile.
        fork_ms = inputs.disk.fork_ms_per_gib * (inputs.resident_bytes / 2**30)
        found.append(Stall(max(1e-3, fork_ms), every_s=kept.snapshot.every_s, fork=True))
    return found


def stall_shares(inputs: NodeInputs) -> list[tuple[float, float]]:
    """Share of the requests and duration in ms of each stall; none at an unknown rate."""
    if (rate_rps := inputs.rate_rps) is None:
        return []
    saturated = inputs.scenario.workload.arrival == "closed_loop"
    return [
        (stall.share_at(rate_rps, saturated=saturated), stall.duration_ms)
        for stall in stalls_of(inputs)
    ]


def with_stalls(
    tables: Mapping[str, np.ndarray], stalls: Sequence[tuple[float, float]]
) -> dict[str, np.ndarray]:
    """Tables by command code with a code more for each stall.

    Its request is parsed like the first command's and its reply says OK.

    Parameters
    ----------
    tables
        By the field of `NodeTimes`; all those that have a row for each code.
    stalls
        Share of the requests and duration in ms.
    """
    if not stalls:
        return dict(tables)
    shares, durations_ms = np.array(stalls).T
    added = {
        "parse_by_code_ps": tables["parse_by_code_ps"][0],
        "execute_by_code_ps": np.rint(durations_ms * _PS_PER_MS),
        "request_bytes_by_code": tables["request_bytes_by_code"][0],
        "reply_bytes_by_code": len(b"+OK\r\n"),
        "keys_by_code": 1,
        "rare_below_by_code": np.rint(np.cumsum(shares) * _DRAW_RANGE),
    }

    def rows(name: str, table: np.ndarray) -> np.ndarray:
        values = np.asarray(added.get(name, 0), np.int64)
        return np.broadcast_to(values, (len(stalls), *table.shape[1:]))

    return {name: np.concatenate([table, rows(name, table)]) for name, table in tables.items()}


def code_shares(times: NodeTimes) -> np.ndarray:
    """(codes,) share of the requests that each command code is."""
    codes = len(times.parse_by_code_ps)
    drawn = np.bincount(times.code_by_draw, minlength=codes) / len(times.code_by_draw)
    rare = times.rare_below_by_code > 0
    if not rare.any():
        return np.asarray(drawn)
    shares = np.zeros(codes)
    shares[rare] = np.diff(times.rare_below_by_code[rare], prepend=0) / _DRAW_RANGE
    return np.asarray((1.0 - shares.sum()) * drawn + shares)
