"""Hardware counters of processors: which event is called what, and where the kernel runs on it.

Canonical names (`cycles`, `l1d_refill`, `mem_stall`) stand for the event of each microarchitecture
that comes nearest; a file in `pmu/` gives its vendor's name, code and source.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pydantic import Field, model_validator

from .files import parse, read_yaml, shipped
from .quantity import Quantity, Source, evaluate
from .record import Record


class CounterEvent(Record):
    """A hardware event.

    `generic` is the kernel's own name where a fixed counter counts it; otherwise `event`, `umask`
    and `cmask` are what goes into the counter's control register.
    """

    name: str
    source: str
    generic: str | None = None
    event: int | None = Field(default=None, ge=0)
    umask: int | None = Field(default=None, ge=0)
    cmask: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _one(self) -> "CounterEvent":
        if (self.generic is None) == (self.event is None):
            raise ValueError("either generic or event")
        return self

    def perf(self, name: str, *, pmu: str) -> str:
        """The event as perf's `-e` takes it, so that perf prints it as `name`.

        Generic events keep their own name: they are named as we name them.
        """
        if self.generic is not None:
            return self.generic
        fields = {"event": self.event, "umask": self.umask, "cmask": self.cmask}
        terms = [f"{field}={value:#x}" for field, value in fields.items() if value is not None]
        return f"{pmu}/{','.join(terms)},name={name}/"


class Metric(Record):
    """A number derived from counters by a formula over their canonical names."""

    formula: str
    source: str


class Processor(Record):
    """How /proc/cpuinfo names a processor: on Arm by implementer and part, else by the rest."""

    implementer: str | None = None
    part: str | None = None
    vendor: str | None = None
    family: int | None = None
    models: list[int] | None = None

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether the fields of a processor in /proc/cpuinfo are these."""
        wanted = {
            "CPU implementer": self.implementer,
            "CPU part": self.part,
            "vendor_id": self.vendor,
            "cpu family": None if self.family is None else str(self.family),
        }
        known = all(fields.get(name) == value for name, value in wanted.items() if value)
        return known and (
            self.models is None or fields.get("model") in {str(model) for model in self.models}
        )


class Pmu(Record):
    """The counters of one microarchitecture.

    Attributes
    ----------
    pmu
        perf's name of the counter unit.
    counters
        How many events count at a time; perf takes turns with more.
    """

    id: str
    title: str
    pmu: str
    counters: Quantity
    processors: list[Processor] = Field(min_length=1)
    notes: list[str] = Field(default_factory=list)
    sources: dict[str, Source]
    events: dict[str, CounterEvent]
    metrics: dict[str, Metric]

    @model_validator(mode="after")
    def _sourced(self) -> "Pmu":
        for name, leaf in (self.events | self.metrics).items():
            if leaf.source not in self.sources:
                raise ValueError(f"a source of the file ({name} names {leaf.source!r})")
        ones = dict.fromkeys(self.events, 1.0)
        for metric in self.metrics.values():
            evaluate(metric.formula, ones | {"cycles": 1e9})
        return self

    def perf_events(self) -> list[str]:
        """All events as perf's `-e` takes them."""
        return [event.perf(name, pmu=self.pmu) for name, event in self.events.items()]

    def derived(self, counts: Mapping[str, float]) -> dict[str, float]:
        """The metrics whose counters are all there."""
        found = {}
        for name, metric in self.metrics.items():
            try:
                found[name] = evaluate(metric.formula, counts)
            except ValueError:  # a counter is missing or zero: so is what is derived from it
                continue
        return found


@lru_cache(maxsize=1)
def list_pmus() -> dict[str, Pmu]:
    """Every microarchitecture with known counters, by id."""
    return {
        name: parse(Pmu, read_yaml(path), file=path)
        for name, path in shipped("forecache.hwprofiles", "pmu").items()
    }


def pmu_of(cpuinfo: str) -> Pmu | None:
    """The counters of the machine whose /proc/cpuinfo this is, or None when it isn't known."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    known = (pmu for pmu in list_pmus().values() for at in pmu.processors if at.matches(fields))
    return next(known, None)


def this_pmu() -> Pmu | None:
    """The counters of this machine, or None when its microarchitecture isn't known."""
    return pmu_of(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace"))
