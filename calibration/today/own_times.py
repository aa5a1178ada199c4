"""What a node says of its main thread's time."""

from __future__ import annotations

from forecache.models.plan.results import OwnTimes

from .commands import is_demand
from .nodes import TodaysNode

_LEAST_READS = 1000.0
_SCRIPTS = 0.01
"""Share of scripts and transactions from which on they explain commands beyond one a read."""
CALLING = ("eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "exec")
"""Their time has that of the commands which they call, each of which is counted for itself."""


def own_times_of(node: TodaysNode, *, io_threads: int) -> OwnTimes | None:
    """The shares of the time looked at; None where no command was counted.

    Parameters
    ----------
    io_threads
        With more than one `used_cpu` counts threads that spin, and tells nothing of the main one.
    """
    span_us = node.span_s * 1e6
    spent_us = {name: us for name, (_, us) in node.counts.items() if name not in CALLING}
    inside_us = sum(us for name, us in spent_us.items() if is_demand(name))
    if inside_us <= 0.0:
        return None
    administration_us = sum(spent_us.values()) - inside_us
    whole_us = node.grown("eventloop_duration_cmd_sum")
    if whole_us:
        inside_us = whole_us - administration_us if whole_us > administration_us else inside_us
    forks_us = (node.grown("total_forks") or 0.0) * (node.last.number("latest_fork_usec") or 0.0)
    expiry_us = 1e3 * (node.grown("expire_cycle_cpu_milliseconds") or 0.0)
    cpu_s = main_cpu_s(node) if io_threads == 1 else None
    reads = node.grown("total_reads_processed")
    commands = node.grown("total_commands_processed") or 0.0
    each = commands / reads if reads and reads >= _LEAST_READS else None
    called = sum(calls for name, (calls, _) in node.counts.items() if name in CALLING)
    if each is not None and called > _SCRIPTS * commands:
        each = min(each, 1.0)  # what they call is counted too, and came with no read of its own
    return OwnTimes(
        span_s=node.span_s,
        between_looks=node.compared,
        busy=None if cpu_s is None else cpu_s * 1e6 / span_us,
        inside=inside_us / span_us,
        administration=administration_us / span_us,
        forks=forks_us / span_us,
        expiry=expiry_us / span_us,
        commands_a_read=each,
    )


def main_cpu_s(node: TodaysNode) -> float | None:
    """CPU time of the main thread in the time looked at; of the process where that isn't told."""
    for suffix in ("_main_thread", ""):
        parts = [node.grown(f"used_cpu_{kind}{suffix}") for kind in ("user", "sys")]
        if None not in parts:
            return sum(part or 0.0 for part in parts)
    return None
