"""A host, an engine and a load generator, and the numbers that one simulation of them goes by."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from forecache.hwprofiles.network import bandwidth_of
from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import HostSpeed

from ..engines.commands import check_commands, check_trace
from ..engines.generator import GeneratorProfile, GeneratorWork
from ..engines.profile import EngineProfile, EngineWork
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from ..step_times.cores import Sharing, shared_physical_cores, shares_cores, sharing
from ..step_times.inputs import ASSUMED_DISK, DiskTimes, NodeInputs
from ..step_times.persistence import check_persistence
from ..step_times.policy_times import moves_items
from ..step_times.wire import check_abilities, only_the_main_thread
from .uncertainty import (
    Draw,
    Drawn,
    LearnedNumbers,
    RecordedSteps,
    Steps,
    draw_disk,
    draw_engine,
    draw_generator,
    draw_host,
    draw_unobserved,
    learned_together,
)

UNCHECKED_DISCREPANCY = 0.08
"""Relative standard error assumed for an engine profile that was not checked against measurements
it was not fitted to, and for the way of one that was to another host."""

_MOST_KEPT = 4
"""Inputs that a system keeps, each with what follows from it."""


@dataclass(frozen=True)
class Numbers:
    """What a host, an engine's work, a load generator and a disk are in one draw, or nominally."""

    speed: HostSpeed
    work: EngineWork
    generator: GeneratorWork
    disk: DiskTimes


Basis = Literal["observed", "anchored", "profiled", "catalogue"]
"""What a prediction for an engine on a host rests on: the engine was calibrated on that host; an
engine was driven there to correct its profile; the host was only profiled; or it comes from the
catalogue."""


@dataclass(frozen=True)
class System:
    """What is simulated besides the scenario: host, engine, load generator."""

    host: HostProfile
    engine: EngineProfile
    generator: GeneratorProfile
    _numbers: dict[tuple[int | None, int], Numbers] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _latest: list[tuple[Scenario, NodeInputs]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """Nominal inputs that were asked for last: of one point they are asked for several times, and
    in between those of the same setting under another load."""

    def __reduce__(self) -> tuple[Any, ...]:
        # It goes to another process with every call: pickled once here and read once there, where
        # the draws that were made of it are kept.
        return _received, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps((self.host, self.engine, self.generator))

    def numbers(self, *, draw: int | None = None, seed: int = 1) -> Numbers:
        """The nominal numbers, or those of draw number `draw`: the same for every scenario."""
        key = draw, seed
        if key not in self._numbers:
            self._numbers[key] = self._nominal() if draw is None else self._drawn(Draw(seed, draw))
        return self._numbers[key]

    def _nominal(self) -> Numbers:
        # An engine that was fitted on this very host needs no other fit there.
        host, learned = ({}, {}) if self.observed_here else self.learned.nominal()
        work = self.engine.engine_work(learned)
        speed = self.host.speed({**self._found, **host})
        return Numbers(speed, work, self.generator.generator_work(), ASSUMED_DISK)

    def numbers_at(self, steps: Mapping[str, float]) -> Numbers:
        """The numbers, each off by as many standard errors as `steps` says of its name."""
        return self._drawn(Steps(steps))

    def drawn_steps(self, draws: Iterable[int], *, seed: int) -> tuple[list[str], np.ndarray]:
        """Names of all that draws vary, and the (draws, names) steps of some of them."""
        rows = []
        for number in draws:
            drawn = RecordedSteps(Draw(seed, number))
            self._drawn(drawn)
            rows.append(drawn.steps)
        names = sorted(rows[0])
        return names, np.array([[row[name] for name in names] for row in rows])

    def uncertain_steps(self) -> tuple[list[str], np.ndarray]:
        """Names of all that draws vary, and the (names, names) covariance of their steps."""
        nominal = RecordedSteps(Steps())
        self._drawn(nominal)
        return nominal.covariance()

    def _drawn(self, draw: Drawn) -> Numbers:
        known = self._found if self.observed_here else draw_host(self.host, draw)
        work = draw_engine(self.engine, draw, observed_here=self.observed_here)
        if not self.observed_here:
            learned, learned_of_engine = self.learned.drawn(draw)
            known, work = {**known, **learned}, {**work, **learned_of_engine}
        return Numbers(
            self._drawn_speed({**draw_unobserved(self.host, draw), **known}),
            self.engine.engine_work(work),
            self.generator.generator_work(draw_generator(self.generator, draw)),
            draw_disk(draw),
        )

    def _drawn_speed(self, drawn: Mapping[str, float]) -> HostSpeed:
        """Who observed an engine here knows what its sleeps take: those on cores without a tick."""
        speed = self.host.speed(drawn)
        if not (self.observed_here or self.host.anchored):
            return speed
        leaves = self.host.scheduling
        block = leaves["tickless_block_scale"].best / speed.tickless_block_scale
        latency = leaves["tickless_latency_scale"].best / speed.tickless_latency_scale
        return replace(
            speed,
            block_ns=speed.block_ns * block,
            wake_latency_ns=speed.wake_latency_ns * latency,
        )

    @cached_property
    def learned(self) -> LearnedNumbers:
        """What a joint fit to published measurements says of this engine on this host."""
        return learned_together(self.host, self.engine)

    @property
    def _found(self) -> dict[str, float]:
        """What a capture leaves open is part of what was fitted to an engine on that very host."""
        observed = self.engine.observed
        return observed.speed if observed is not None and self.observed_here else {}

    def inputs(self, scenario: Scenario, *, draw: int | None = None, seed: int = 1) -> NodeInputs:
        """Numbers for one simulation: nominal, or draw number `draw`."""
        if draw is not None:
            return self.inputs_of(scenario, self.numbers(draw=draw, seed=seed))
        for known, inputs in self._latest:
            if known is scenario:
                return inputs
        found = self.inputs_of(scenario, self.numbers())
        self._latest[:] = [(scenario, found), *self._latest[: _MOST_KEPT - 1]]
        return found

    def inputs_of(self, scenario: Scenario, numbers: Numbers) -> NodeInputs:
        """The same for numbers that somebody else found."""
        check_commands(scenario, self.engine.commands, engine=self.engine.id)
        check_persistence(scenario, self.engine)
        check_abilities(scenario, self.engine)
        check_trace(scenario)
        most = self.engine.max_io_threads
        if scenario.io_threads > most:
            scenario = scenario.model_copy(update={"io_threads": most})
        if only_the_main_thread(scenario, self.engine):
            scenario = scenario.model_copy(update={"io_threads": 1})
        speed = numbers.speed
        if scenario.clock_ghz is not None:
            speed = speed.at_clock(scenario.clock_ghz, of_ghz=self.host.clock_ghz.best)
        if scenario.idle_polls:
            # The kernel starts the tick again before it polls.
            speed = speed.with_busy_siblings().ticking()
        if scenario.bandwidth == "burst":
            burst = bandwidth_of(speed).burst_gbit_per_s
            speed = replace(speed, network_gbit_per_s=burst)
        if scenario.cores is not None:
            speed = replace(speed, cores=scenario.cores)
        of_tool = speed.ticking() if self.generator.polls_to_send else speed
        return NodeInputs(
            scenario,
            self.engine,
            numbers.work,
            of_tool if scenario.same_host else speed,
            numbers.generator,
            of_tool,
            self.generator.rules,
            self.sharing(scenario),
            numbers.disk,
        )

    def sharing(self, scenario: Scenario) -> Sharing:
        """The groups of threads that may have to share cores."""
        speed = self.numbers().speed
        groups = sharing(scenario, speed.cores)
        # Of threads that are all alike none is the main thread.
        threading = self.engine.threading
        pinned = groups.main_pinned and not threading.threads_alike
        others = groups.others + (threading.locks_items and moves_items(scenario))
        groups = groups._replace(main_pinned=pinned, others=others)
        physical = shared_physical_cores(scenario, groups, speed.cores, speed.threads_per_core)
        return groups._replace(physical_cores=physical)

    def shares_cores(self, scenario: Scenario) -> bool:
        """Whether some threads have to share cores."""
        threads = min(scenario.io_threads, self.engine.max_io_threads)
        scenario = scenario.model_copy(update={"io_threads": threads})
        return shares_cores(scenario, self.sharing(scenario))

    @cached_property
    def observed_here(self) -> bool:
        """Whether the engine's work was fitted on this host, captured on the same day.

        All guests of one kind have one id. What a fit found of another one, or of this one in
        another week, says nothing of this: steps between versions, each of which had brought such
        numbers along, were off by 5.8% in the median, and by 3.5% without them (docs/models.md).
        """
        observed, captured = self.engine.observed, self.host.captured
        if observed is None or observed.host != self.host.id:
            return False
        return observed.captured is None or (
            captured is not None and observed.captured == captured.date
        )

    @property
    def basis(self) -> Basis:
        """What is known of the engine on this host."""
        if self.observed_here:
            return "observed"
        if self.host.anchored:
            return "anchored"
        return "catalogue" if self.host.captured is None else "profiled"

    def discrepancy(self, scenario: Scenario) -> float:
        """Relative standard error of the model itself, of a load."""
        learned = self.host.posterior
        if learned and learned.of_policy(self.engine.policy) and not self.observed_here:
            plain = scenario.workload.only_get_and_set
            return learned.discrepancy if plain else learned.commands_discrepancy
        known = self.engine.discrepancy
        if known is None:
            return UNCHECKED_DISCREPANCY
        return known if self.observed_here else math.hypot(known, UNCHECKED_DISCREPANCY)

    @cached_property
    def variation(self) -> float:
        """Relative standard deviation of one window that somebody measures: of windows, of starts
        of the server and of days."""
        found = {name: leaf.best for name, leaf in self.host.variations().items()}
        if self.engine.observed is not None and self.observed_here:
            found.update(self.engine.observed.variation.items())
        return math.hypot(*found.values())

    @property
    def memory_discrepancy(self) -> float:
        """Relative standard error of the waits for memory, besides."""
        return self.engine.memory_discrepancy or 0.0


NodeCase = tuple[Case[Scenario], System]
"""A point of a sweep with the system that it names."""


@lru_cache(maxsize=64)
def _received(pickled: bytes) -> System:
    """The system that another process sent, the same one each time."""
    return System(*pickle.loads(pickled))


# --- a system that was corrected by what was measured of it under one load -----------------------


class Corrections(NamedTuple):
    """Logarithms of factors on what a request takes of the main thread.

    Attributes
    ----------
    inside
        On executing commands and waiting for their memory.
    rest
        On reading, parsing, writing and turns of the event loop, the kernel's part included.
    sleep
        On sleeping, waking up and waking others.
    """

    inside: float = 0.0
    rest: float = 0.0
    sleep: float = 0.0


INSIDE = ("execute", "wait for memory", "look up ahead")
SLEEP = ("sleep and wake up", "wake the receiver")
"""Steps (`explain.steps_of`) that the corrections are on; the others are the rest."""

_INSIDE_WORK = (
    *("get_instructions", "get_instructions_per_byte", "set_instructions"),
    *("set_instructions_per_byte", "value_instructions", "prefetch_instructions_per_key"),
    *("touch_scale", "stream_scale"),
)
_REST_WORK = (
    *("loop_instructions", "read_instructions", "write_instructions", "parse_instructions"),
    *("parse_instructions_per_byte", "kernel_scale"),
)


def corrected(work: EngineWork, by: Corrections) -> EngineWork:
    """An engine's work, times the factors."""
    inside, rest, sleep = np.exp(by).tolist()
    changed: dict[str, Any] = {name: getattr(work, name) * inside for name in _INSIDE_WORK}
    changed |= {name: getattr(work, name) * rest for name in _REST_WORK}
    changed["wake_scale"] = work.wake_scale * sleep
    commands: Mapping[str, float] = {n: each * inside for n, each in work.commands.items()}
    return replace(work, commands=commands, **changed)


@dataclass(frozen=True)
class CorrectedSystem(System):
    """A system with corrections: the most probable ones, and those of each draw.

    Further draws than there are corrections take them in turn, and know less for it. The model
    error of the system that was measured is that of an engine observed on its own host: what was
    measured covers the way there.
    """

    nominal_corrections: Corrections = field(kw_only=True)
    drawn_corrections: tuple[Corrections, ...] = field(kw_only=True)
    observed: bool = field(default=True, kw_only=True)
    """Whether it is the system that was measured."""

    @cached_property
    def _pickled(self) -> bytes:
        parts = (self.host, self.engine, self.generator)
        how = (self.nominal_corrections, self.drawn_corrections, self.observed)
        return pickle.dumps((*parts, *how))

    def __reduce__(self) -> tuple[Any, ...]:
        return _received_corrected, (self._pickled,)

    def _nominal(self) -> Numbers:
        return _with(super()._nominal(), self.nominal_corrections)

    def _drawn(self, draw: Drawn) -> Numbers:
        if not isinstance(draw, Draw):  # steps that somebody chose, around the most probable ones
            return _with(super()._drawn(draw), self.nominal_corrections)
        corrections = self.drawn_corrections[draw.number % len(self.drawn_corrections)]
        return _with(super()._drawn(draw), corrections)

    def discrepancy(self, scenario: Scenario) -> float:
        """Relative standard error of the model itself, of a load."""
        if not self.observed:
            return super().discrepancy(scenario)
        known = self.engine.discrepancy
        return UNCHECKED_DISCREPANCY if known is None else known


def _with(numbers: Numbers, by: Corrections) -> Numbers:
    return replace(numbers, work=corrected(numbers.work, by))


def _received_corrected(pickled: bytes) -> CorrectedSystem:
    *parts, nominal, drawn, observed = pickle.loads(pickled)
    return CorrectedSystem(
        *parts, nominal_corrections=nominal, drawn_corrections=drawn, observed=observed
    )
