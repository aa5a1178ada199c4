"""Intel VTune: run its collections where it is installed."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...bundle.points import COUNTER_POINTS, Conditions
from ...bundle.profiles import CounterValue, Depth, Profile, StageWork, ThreadWork
from ..readers.vtune import VtuneReport, read_vtune
from .attribution import Stages
from .programs import missing, refusal, run_program, version_of
from .session import ProfileEvidence, session, steady_load

# What is collected, and the reports that are read from it.
_COLLECTIONS = {
    "hotspots": ("hotspots",),
    "uarch-exploration": ("hw-events",),
    "memory-access": ("hw-events",),
}
_KNOBS = {"hotspots": ("-knob", "sampling-mode=hw")}
_VTUNE_LIMIT_S = 300.0
_CPU_TIME = ("CPU Time", "CPU Time:Self")
_EVENT = "Hardware Event Count:"
_CANONICAL = {
    "INST_RETIRED.ANY": "instructions",
    "CPU_CLK_UNHALTED.THREAD": "cycles",
    "L1D.REPLACEMENT": "l1d_refill",
    "LONGEST_LAT_CACHE.MISS": "llc_miss",
    "MEM_LOAD_RETIRED.L1_MISS": "l1d_load_miss",
    "MEM_LOAD_RETIRED.L3_MISS": "l3_load_miss",
    "BR_MISP_RETIRED.ALL_BRANCHES": "branch_miss",
}


@dataclass(frozen=True)
class Vtune:
    """Runs each collection over a window of a steady load."""

    window_s: float = 5.0
    name: Literal["vtune"] = "vtune"
    depth: Depth = "vtune"

    def refusal(self) -> str | None:
        """VTune is missing or can't start."""
        return missing("vtune") or refusal(["vtune", "--version"])

    def points(self) -> Sequence[Conditions]:
        """As for hardware counters."""
        return COUNTER_POINTS

    def profile(self, binary: Path, points: Sequence[Conditions]) -> list[ProfileEvidence]:
        """Collect at each point."""
        with session(binary, points) as on:
            found = []
            for given in points:
                with tempfile.TemporaryDirectory(prefix="forecache-vtune-") as folder:
                    with steady_load(on, given) as steady:
                        self._collect(on.process.pid, Path(folder), on.plan.generator)
                    requests = max(1, round(steady.throughput_rps * self.window_s))
                    profile = profile_of_reports(
                        sorted(Path(folder).glob("*.csv")),
                        on.stages,
                        given=given,
                        requests=requests,
                        tool=version_of(["vtune", "--version"]),
                    )
                found.append(ProfileEvidence(profile.model_copy(update=steady.rates), ""))
            return found

    def _collect(self, pid: int, folder: Path, cores: frozenset[int]) -> None:
        for collection, reports in _COLLECTIONS.items():
            result = str(folder / collection)
            command = ["vtune", "-collect", collection, *_KNOBS.get(collection, ())]
            command += ["-target-pid", str(pid), "-duration", f"{self.window_s:g}", "-r", result]
            run_program(command, timeout_s=self.window_s + _VTUNE_LIMIT_S, cores=cores)
            for report in reports:
                out = str(folder / f"{collection}-{report}.csv")
                command = ["vtune", "-report", report, "-r", result, "-format", "csv"]
                command += ["-csv-delimiter", "comma", "-group-by", "function"]
                run_program([*command, "-report-output", out], timeout_s=_VTUNE_LIMIT_S)


def profile_of_reports(
    files: Iterable[Path], stages: Stages, *, given: Conditions, requests: int, tool: str
) -> Profile:
    """One profile from reports; CPU time gives the shares, events the counters."""
    threads: list[ThreadWork] = []
    counters: dict[str, CounterValue] = {}
    unattributed: float | None = None
    for file in files:
        report = read_vtune(file)
        if report.kind == "hotspots":
            works, unattributed = _shares(report, stages)
            threads = [ThreadWork(thread="all", role="main", stages=works)]
        elif report.kind == "hw-events":
            for name, total in _events(report).items():
                each = None if total is None else total / requests
                counters.setdefault(name, CounterValue(event=name, per_request=each))
    return Profile(
        profiler="vtune",
        tool=tool,
        given=given,
        requests=requests,
        unattributed=unattributed,
        threads=threads,
        counters=list(counters.values()),
    )


def _shares(report: VtuneReport, stages: Stages) -> tuple[list[StageWork], float | None]:
    """Shares of the CPU time by stage, the largest first, and the share without a stage."""
    column = next((name for name in _CPU_TIME if name in report.columns), None)
    times: dict[str, float] = {}
    unknown = 0.0
    for row in report.rows:
        time_s = row.numbers.get(column or "")
        if time_s is None:
            continue
        stage = stages.stage_of(row.name) or stages.system_call_stage(row.name)
        times[stage or "other"] = times.get(stage or "other", 0.0) + time_s
        unknown += 0.0 if stage else time_s
    total = sum(times.values())
    if not total:
        return [], None
    works = [StageWork(stage=stage, share=time_s / total) for stage, time_s in times.items()]  # type: ignore[arg-type]
    return sorted(works, key=lambda work: -(work.share or 0.0)), unknown / total


def _events(report: VtuneReport) -> dict[str, float | None]:
    """Totals of the hardware events over all functions; None where no row has a value."""
    totals: dict[str, float | None] = {}
    for column in report.columns:
        if not column.startswith(_EVENT):
            continue
        values = [row.numbers.get(column) for row in report.rows]
        known = [value for value in values if value is not None]
        event = column.removeprefix(_EVENT).removesuffix("_PS")
        totals[_CANONICAL.get(event, event)] = sum(known) if known else None
    return totals
