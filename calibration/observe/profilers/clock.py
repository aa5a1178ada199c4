"""Where CPU time goes, by sampling the CPU clock with perf: no hardware counters needed."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...bundle.points import CLOCK_POINTS, Conditions
from ...bundle.profiles import Depth, Profile
from ..readers.perf_script import read_perf_script
from .attribution import Attribution
from .programs import missing, record_refusal, run_program, version_of
from .session import Found, Session, session, steady_load

_FREQUENCY_HZ = 4000
_PERF_LIMIT_S = 120.0
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

    def profile(self, binary: Path, points: Sequence[Conditions]) -> list[Found]:
        """Sample each point for a window."""
        with session(binary, points) as on:
            return [self._look(on, given) for given in points]

    def _look(self, on: Session, given: Conditions) -> Found:
        with steady_load(on, given) as steady:
            roles = on.roles()
            found = record(on, "cpu-clock", self.window_s)
        return Found(
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
        run_program(command, timeout_s=window_s + _PERF_LIMIT_S, cores=on.plan.generator)
        done = run_program(
            ["perf", "script", "-i", str(data), "-F", _FIELDS],
            timeout_s=_PERF_LIMIT_S,
            cores=on.plan.generator,
        )
        text.write_text(done.stdout, encoding="utf-8")
        return Attribution(on.stages).add(read_perf_script(text))
