"""Rare commands that occupy the main thread for long: everybody behind them waits.

They are command codes of their own, too rare for the table of 1,024 slots that commands are drawn
from: a draw of 32 bits decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..node.setup import NodeTimes

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
    """

    duration_ms: float
    every_s: float | None = None
    share: float | None = None

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


def with_stalls(times: NodeTimes, stalls: Sequence[tuple[float, float]]) -> NodeTimes:
    """Times with a command code more for each stall.

    Its request is parsed like the first command's and its reply says OK.

    Parameters
    ----------
    stalls
        Share of the requests and duration in ms.
    """
    if not stalls:
        return times
    count = len(stalls)
    shares, durations_ms = np.array(stalls).T
    known = len(times.parse_by_code_ps)
    below = np.rint(np.cumsum(shares) * _DRAW_RANGE).astype(np.int64)

    def more(table: np.ndarray, values: object) -> np.ndarray:
        added = np.broadcast_to(np.asarray(values, np.int64), (count, *table.shape[1:]))
        return np.concatenate([table, added])

    return times._replace(
        parse_by_code_ps=more(times.parse_by_code_ps, times.parse_by_code_ps[0]),
        execute_by_code_ps=more(
            times.execute_by_code_ps, np.rint(durations_ms * _PS_PER_MS).astype(np.int64)
        ),
        stall_ps=more(times.stall_ps, 0),
        prefetched_stall_by_code_ps=more(times.prefetched_stall_by_code_ps, 0),
        request_bytes_by_code=more(times.request_bytes_by_code, times.request_bytes_by_code[0]),
        reply_bytes_by_code=more(times.reply_bytes_by_code, len(b"+OK\r\n")),
        write_by_code_ps=more(times.write_by_code_ps, 0),
        free_by_code_ps=more(times.free_by_code_ps, 0),
        keys_by_code=more(times.keys_by_code, 1),
        logged_bytes_by_code=more(times.logged_bytes_by_code, 0),
        rare_below_by_code=np.concatenate([np.zeros(known, np.int64), below]),
    )


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
