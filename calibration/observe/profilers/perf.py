"""perf: samples of the CPU clock, and hardware counters where the host has them."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forecache.hwprofiles.pmu import Pmu, this_pmu
from forecache.sim.errors import EngineError, InputError

from ...bundle.points import CLOCK_POINTS, COUNTER_POINTS, Conditions
from ...bundle.profiles import CounterValue, Depth, Profile
from ..readers.perf import SEPARATOR, Counter, parse_perf_stat, read_perf_script, read_perf_stat
from .attribution import Attribution
from .programs import first_words, missing, record_refusal, run_program, version_of
from .session import ProfileEvidence, Session, session, steady_load

# --- samples of the CPU clock, which needs no hardware counters -----------------------------------


_FREQUENCY_HZ = 4000
_SAMPLING_LIMIT_S = 120.0
# What perf prints of a sample; the fields are named, because their default differs by version.
_FIELDS = "comm,pid,tid,time,event,period,ip,sym,dso"


@dataclass(frozen=True)
class Clock:
    """Samples every thread of the server while it serves."""

    window_s: float = 2.0
    name: Literal["clock"] = "clock"
    depth: Depth = "clock"

    def refusal(self) -> str | None:
        """perf is missing, or the system refuses to sample."""
        return missing("perf") or record_refusal("cpu-clock")

    def points(self) -> Sequence[Conditions]:
        """Points that show reading, parsing, execution and copying apart."""
        return CLOCK_POINTS

    def profile(self, binary: Path, points: Sequence[Conditions]) -> list[ProfileEvidence]:
        """Sample each point for a window."""
        with session(binary, points) as on:
            return [self._look(on, given) for given in points]

    def _look(self, on: Session, given: Conditions) -> ProfileEvidence:
        with steady_load(on, given) as steady:
            roles = on.roles()
            found = record(on, "cpu-clock", self.window_s)
        return ProfileEvidence(
            Profile(
                profiler="clock",
                tool=version_of(["perf", "--version"]),
                given=given,
                requests=steady.requests,
                samples=found.samples,
                unattributed=found.unattributed,
                threads=found.threads(roles),
                **steady.rates,
            ),
            found.evidence(),
        )


def record(on: Session, event: str, window_s: float) -> Attribution:
    """Sample an event in all threads of the server, and attribute the samples.

    Raises
    ------
    EngineError
        perf fails.
    InputError
        perf's output can't be read, or there were no samples.
    """
    with tempfile.TemporaryDirectory(prefix="forecache-perf-") as folder:
        data, text = Path(folder) / "perf.data", Path(folder) / "perf.txt"
        command = ["perf", "record", "-q", "-g", "-e", event, "-F", str(_FREQUENCY_HZ)]
        command += ["-o", str(data), "-p", str(on.process.pid), "--", "sleep", f"{window_s:g}"]
        run_program(command, timeout_s=window_s + _SAMPLING_LIMIT_S, cores=on.plan.generator)
        done = run_program(
            ["perf", "script", "-i", str(data), "-F", _FIELDS],
            timeout_s=_SAMPLING_LIMIT_S,
            cores=on.plan.generator,
        )
        text.write_text(done.stdout, encoding="utf-8")
        return Attribution(on.stages).add(read_perf_script(text))


# --- hardware counters a request, and cycles by stage ---------------------------------------------


_COUNTING_LIMIT_S = 60.0
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

    def profile(self, binary: Path, points: Sequence[Conditions]) -> list[ProfileEvidence]:
        """Count and sample each point for a window."""
        with session(binary, points) as on:
            return [self._look(on, given) for given in points]

    def _look(self, on: Session, given: Conditions) -> ProfileEvidence:
        pmu = this_pmu()
        with steady_load(on, given) as steady:
            roles = on.roles()
            counts = _count(on, pmu, self.window_s)
            samples = record(on, "cycles", self.window_s)
        requests = steady.throughput_rps * self.window_s
        values = counter_values(counts, requests=requests)
        known = {value.event: value.per_request for value in values}
        return ProfileEvidence(
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
        run_program(command, timeout_s=window_s + _COUNTING_LIMIT_S, cores=on.plan.generator)
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
