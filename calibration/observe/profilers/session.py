"""A running, loaded engine to look at, and what its own counters say about a stretch of load."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from forecache.models.prediction.predict import Progress
from forecache.sim.errors import EngineError

from ...bundle.points import Conditions
from ...bundle.profiles import Depth, Profile
from ...drive.connection import ControlClient
from ...drive.loadgen import LoadGenerator, preload
from ...drive.servers import ServerProcess, server_kind
from ..measure import CorePlan, info_rates, pin_threads, plan_cores
from ..readers.info import difference, engine_of, info_fields
from ..spinning import Spinning
from .attribution import Role, Stages

_WARM_UP_S = 0.2
_LOAD_LIMIT_S = 180.0
_RATES = {
    "reads_per_request": "total_reads_processed",
    "writes_per_request": "total_writes_processed",
    "event_loops_per_request": "eventloop_cycles",
}


@dataclass(frozen=True)
class ProfileEvidence:
    """A profile, and the counts per function that it was made from, as text."""

    profile: Profile
    evidence: str


class Profiler(Protocol):
    """What every profiler offers."""

    @property
    def name(self) -> str:
        """As `--profiler` calls it."""

    @property
    def depth(self) -> Depth:
        """How deep it looks."""

    def refusal(self) -> str | None:
        """Why it can't be used here, in words, or None when it can."""

    def points(self) -> Sequence[Conditions]:
        """The points it looks at."""

    def profile(self, binary: Path, points: Sequence[Conditions]) -> list[ProfileEvidence]:
        """Look at points that share a data set, on a server of their own."""


@dataclass(frozen=True)
class Session:
    """A loaded engine, how to ask it, and which cores do what.

    `spinning` is what its threads look like while they wait, where they spin and that was learnt.
    """

    process: ServerProcess
    control: ControlClient
    plan: CorePlan
    spinning: Spinning | None = None

    @cached_property
    def stages(self) -> Stages:
        """The symbol map of the engine that answers."""
        return Stages(*engine_of(self.info()))

    def roles(self) -> dict[int, Role]:
        """Role of each thread by its id."""
        return {thread.tid: thread.role for thread in self.process.threads()}  # type: ignore[misc]

    def info(self) -> Mapping[str, str]:
        """INFO, as fields."""
        return info_fields(self.control.info())


@contextmanager
def session(
    binary: Path,
    points: Sequence[Conditions],
    *,
    wrapper: Sequence[str] = (),
    allowed: Collection[int] | None = None,
    progress: Progress | None = None,
    seed: int = 1,
    first_key: int = 0,
) -> Iterator[Session]:
    """Start an engine for points that share a data set, load it, and stop it in the end.

    Parameters
    ----------
    wrapper
        As of `ServerProcess`.
    allowed
        Cores for engine and load; those of this process if left out.
    progress
        Called with a sentence once the server has started, before it is loaded.
    seed, first_key
        Of the data set, as in `preload`.
    """
    first = points[0]
    plan = plan_cores(
        io_threads=first.io_threads,
        generator_threads=max(given.generator_threads for given in points),
        allowed=allowed,
    )
    kind = server_kind(binary)
    with (
        kind(
            binary,
            io_threads=first.io_threads,
            cores={plan.main},
            config=kind.slow_config if wrapper else None,
            wrapper=wrapper,
        ) as process,
        process.control() as control,
    ):
        pin_threads(process, plan)
        if progress is not None:
            progress(f"loading {first.keys} keys of {first.value_bytes:g} bytes")
        preload(
            first,
            process.address(first.transport),
            control=control,
            seed=seed,
            first_key=first_key,
            cores=plan.generator,
        )
        yield Session(process, control, plan)


@dataclass
class Steady:
    """What a steady load did while it was looked at; complete when its block has ended.

    `throughput_rps` is that of the whole block, which takes a little longer than a profiler's
    window; `rates` are from the engine's counters.
    """

    requests: int = 0
    throughput_rps: float = 0.0
    rates: dict[str, Any] = field(default_factory=dict)


@contextmanager
def steady_load(on: Session, given: Conditions) -> Iterator[Steady]:
    """Drive a point, warmed up, while the block runs."""
    steady = Steady()
    address = on.process.address(given.transport)
    with LoadGenerator(given, address, cores=on.plan.generator, longest_s=_LOAD_LIMIT_S) as load:
        time.sleep(_WARM_UP_S + given.clients * 1e-4)
        before = on.info()
        first = load.snapshot()
        yield steady
        last = load.snapshot()
        after = on.info()
    load.check()
    result = load.result(first, last)
    if not result.requests:
        raise EngineError(f"{given.label()}: the engine served nothing while it was profiled.")
    steady.requests = result.requests
    steady.throughput_rps = result.throughput_rps
    counted = info_rates(before, after)
    steady.rates = {rate: counted[rate] for rate in _RATES}


def fixed_load(on: Session, given: Conditions, *, requests: int) -> None:
    """Send an exact number of requests and wait for their replies."""
    address = on.process.address(given.transport)
    with LoadGenerator(
        given,
        address,
        cores=on.plan.generator,
        requests=requests,
        longest_s=_LOAD_LIMIT_S,
    ) as load:
        load.join()


def exact_rates(looks: Sequence[Mapping[str, str]], *, requests: int) -> dict[str, Any]:
    """Reads, writes and event loops a request, from INFO before, between and after two loads.

    The second load has `requests` more than the first; what both did besides, connecting and INFO
    itself among it, cancels out.
    """
    rates: dict[str, Any] = {}
    for rate, name in _RATES.items():
        short, long = (difference(looks[i], looks[i + 1], name) for i in (0, 1))
        rates[rate] = None if short is None or long is None else (long - short) / requests
    return rates
