"""Hardware counters per request and cycles by stage, with perf, where the host has counters."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forecache.hwprofiles.pmu import Pmu, this_pmu
from forecache.sim.errors import EngineError, InputError

from ...bundle.points import COUNTER_POINTS, Conditions
from ...bundle.profiles import CounterValue, Depth, Profile
from ..readers.perf_stat import SEPARATOR, Counter, parse_perf_stat, read_perf_stat
from .clock import record
from .programs import first_words, missing, record_refusal, run_program, version_of
from .session import Found, Session, session, steady_load

_PERF_LIMIT_S = 60.0
# Counters that every perf knows, for microarchitectures without a file of their own.
_GENERIC = ("cycles", "instructions", "cache-misses", "branch-misses")
_CANONICAL = {"cache-misses": "llc_miss", "branch-misses": "branch_miss"}


@dataclass(frozen=True)
class Counters:
    """Counts events of the whole server while it serves, then samples its cycles."""

    window_s: float = 2.0
    name: Literal["perf"] = "perf"
    depth: Depth = "counters"

    def refusal(self) -> str | None:
        """perf is missing, or the processor or hypervisor offers no counters."""
        return missing("perf") or _no_counters() or record_refusal("cycles")

    def points(self) -> Sequence[Conditions]:
        """Points with data sets inside and beyond the caches."""
        return COUNTER_POINTS

    def profile(self, binary: Path, points: Sequence[Conditions]) -> list[Found]:
        """Count and sample each point for a window."""
        with session(binary, points) as on:
            return [self._look(on, given) for given in points]

    def _look(self, on: Session, given: Conditions) -> Found:
        pmu = this_pmu()
        with steady_load(on, given) as steady:
            roles = on.roles()
            counts = _count(on, pmu, self.window_s)
            samples = record(on, "cycles", self.window_s)
        requests = steady.throughput_rps * self.window_s
        values = counter_values(counts, requests=requests)
        known = {value.event: value.per_request for value in values}
        return Found(
            Profile(
                profiler="perf",
                tool=version_of(["perf", "--version"]),
                given=given,
                requests=max(1, round(requests)),
                samples=samples.samples,
                unattributed=samples.unattributed,
                threads=samples.threads(roles),
                counters=values,
                metrics={}
                if pmu is None
                else pmu.derived({name: value for name, value in known.items() if value}),
                **steady.rates,
            ),
            samples.evidence(),
        )


def _count(on: Session, pmu: Pmu | None, window_s: float) -> list[Counter]:
    """Events of all threads of the server over a window."""
    with tempfile.TemporaryDirectory(prefix="forecache-perf-") as folder:
        out = Path(folder) / "stat"
        events = list(_GENERIC) if pmu is None else pmu.perf_events()
        command = ["perf", "stat", "-x", SEPARATOR, "-o", str(out)]
        command += [word for event in events for word in ("-e", event)]
        command += ["-p", str(on.process.pid), "--", "sleep", f"{window_s:g}"]
        run_program(command, timeout_s=window_s + _PERF_LIMIT_S, cores=on.plan.generator)
        return read_perf_stat(out)


def counter_values(counts: Iterable[Counter], *, requests: float) -> list[CounterValue]:
    """Counters under their canonical names, per request; what wasn't counted stays None."""
    return [
        CounterValue(
            event=_CANONICAL.get(count.event, count.event),
            per_request=None if count.value is None else count.value / requests,
            running_fraction=None if count.value is None else count.running_fraction,
        )
        for count in counts
    ]


def _no_counters() -> str | None:
    """Why there are no hardware counters, in words, or None when there are."""
    try:
        done = run_program(["perf", "stat", "-x", SEPARATOR, "-e", "cycles", "true"], timeout_s=30)
        counts = parse_perf_stat(done.stderr, file="perf stat")
    except (EngineError, InputError) as error:
        return str(error).rstrip(".")
    if not counts or counts[0].value is None:
        reason = counts[0].absent if counts else first_words(done)
        return f"perf says cycles are {reason}"
    return None
