"""How long a large command keeps the main thread busy: work x speed = time.

    instructions / (IPC x clock) + sum of lines waited for x what each takes + new pages + calls

No data is in the caches when a command begins: whatever else runs, here or on neighbouring
cores, has filled them. Where a line is found that was touched before follows Che's
approximation (`memory/caches.py`), with the touches of this command as all there is. Lines of one
member are waited for one after the other, as in the rest of the model; where little is done per
member, a core works on several at once. Page walks don't overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from forecache.hwprofiles.speed import HostSpeed

from ...memory.caches import beyond, characteristic_requests, hit_shares, page_walk_ns
from ...memory.lines import LINE_BYTES
from .touches import Touch

PAGE_BYTES = 4096

WINDOW_PER_MISS = 12.0
"""Instructions a core looks ahead for each miss it sustains: Zen 5 holds 448 and was measured to
sustain 37, Ivy Bridge holds 168 with 10 line buffers. Assumed, 9 to 17."""

FIRST_TOUCH_NS = 700.0
"""The first touch of a page: fault, clearing it, and giving it back later. Assumed: 100 ns to clear
it, 200 to 500 for the fault on bare metal and up to several times that in a virtual machine."""

FIRST_TOUCH_RANGE_NS = (250.0, FIRST_TOUCH_NS, 2500.0)


@dataclass(frozen=True)
class MainThread:
    """Time of the main thread, ns."""

    computing_ns: float = 0.0
    waiting_ns: float = 0.0
    paging_ns: float = 0.0

    @property
    def total_ns(self) -> float:
        """All of it."""
        return self.computing_ns + self.waiting_ns + self.paging_ns


@dataclass(frozen=True)
class Speed:
    """A host's speed with what only large commands ask of it.

    Attributes
    ----------
    touch_scale
        Waits for lines against those the host's numbers say.
    first_touch_ns
        Of a page of memory the process didn't have.
    copied_page_ns
        To move a page of text to new memory; None: its first touch and the copy.
    """

    host: HostSpeed
    touch_scale: float = 1.0
    first_touch_ns: float = FIRST_TOUCH_NS
    copied_page_ns: float | None = field(default=None)

    def instructions_ns(self, instructions: float) -> float:
        """Of user code whose data is near."""
        return instructions / (self.host.user_ipc * self.host.clock_ghz)

    def pages_ns(self, new_bytes: float) -> float:
        """Of memory that is touched for the first time."""
        return new_bytes / PAGE_BYTES * self.first_touch_ns

    def streamed_ns(self, streamed_bytes: float) -> float:
        """Reading memory in a row that has left the caches, beyond what a copy itself takes."""
        return streamed_bytes / LINE_BYTES * self.host.dram_ns / self.host.parallel_misses

    @property
    def moved_page_ns(self) -> float:
        """Of copying a page of a large text to memory that is new."""
        if self.copied_page_ns is not None:
            return self.copied_page_ns
        return self.first_touch_ns + self.streamed_ns(PAGE_BYTES)


def waits_ns(touches: Sequence[Touch], *, members: float, speed: Speed, busy_ns: float) -> float:
    """Wait for all lines of a command.

    Parameters
    ----------
    members
        Steps it takes; touches per step set against each other for room in the caches.
    busy_ns
        What it computes in all, in which neighbours fill the shared cache.
    """
    host = speed.host
    rows = [t for t in touches if t.count > 0 and t.region_bytes > 0]
    if not rows or members <= 0:
        return 0.0
    lines = np.array([max(1.0, t.region_bytes / LINE_BYTES) for t in rows])
    rates = np.array([t.count / members for t in rows])
    data_bytes = sum({t.name: t.region_bytes for t in rows}.values())
    fills = host.l3_fills_per_us * 1e-3 * busy_ns / members
    l2 = characteristic_requests(lines, rates, host.l2_bytes / LINE_BYTES)
    l3 = characteristic_requests(lines, rates, host.l3_bytes / LINE_BYTES, fills_per_request=fills)
    per_member = speed.host.user_ipc * speed.host.clock_ghz * busy_ns / members
    at_once = max(1.0, WINDOW_PER_MISS * host.parallel_misses / max(1.0, per_member))
    outside = beyond(host.tlb_reach_bytes, data_bytes)
    total = 0.0
    for touch, count, rate in zip(rows, lines, rates, strict=True):
        each = np.array([rate / count])
        in_l2 = float(hit_shares(each, l2)[0])
        in_l3 = max(in_l2, float(hit_shares(each, l3)[0]))
        near = max(0.0, host.l3_ns - host.l2_ns)
        far = max(near, host.dram_ns - host.l2_ns)
        again = near * (in_l3 - in_l2) + far * (1.0 - in_l3)
        first = _first_touches(touch, count)
        wait = (first * far + (touch.count - first) * again) / touch.count
        ahead = min(touch.together, host.parallel_misses)
        walk = outside * page_walk_ns(host, touch.region_bytes)
        lines_ns = wait * (1.0 / ahead + touch.more) / min(at_once, host.parallel_misses)
        total += touch.count * (lines_ns + walk * min(1.0, wait / far) / ahead)
    return speed.touch_scale * total


def _first_touches(touch: Touch, lines: float) -> float:
    """Of touches at random, those that are the first ones of their line.

    Of entries as large as a line, each has a first one of its own.
    """
    if touch.each_bytes >= LINE_BYTES:
        return min(touch.count, touch.region_bytes / touch.each_bytes)
    return -lines * math.expm1(-touch.count / lines)


def main_thread(
    instructions: float,
    touches: Sequence[Touch],
    *,
    members: float,
    new_bytes: float,
    speed: Speed,
) -> MainThread:
    """Time of a command that does so much."""
    computing = speed.instructions_ns(instructions)
    return MainThread(
        computing_ns=computing,
        waiting_ns=waits_ns(touches, members=members, speed=speed, busy_ns=computing),
        paging_ns=speed.pages_ns(new_bytes),
    )


def calls(total_bytes: float, each_bytes: float) -> int:
    """Number of system calls that carry a number of bytes."""
    return max(1, math.ceil(total_bytes / each_bytes)) if total_bytes > 0 else 0
