"""What each piece of a thread plan gains over leaving it to the kernel, by simulation.

Each piece is left out of the whole plan in turn. With and without it are simulated under the same
random streams and draws, so that what they share cancels (`paired.py`). Two that would run the same
simulation are the same, and are not simulated again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Literal

from forecache.sim.plain import Result
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ...prediction.predict import Prediction, Progress, predict_cases
from ...prediction.system import System
from ...scenario.schema import Scenario
from ...scenario.sweeps import Case
from ...step_times.locks import moves_items
from ...step_times.sharing import OWN_CORES_EACH, beside_server, sharing
from ..effects import metric_of
from ..paired import PairedQuantity, paired_quantity
from .lines import forks
from .placement import CpuNumbers, Placement, place

Piece = Literal[
    "threads",
    "neighbours",
    "interrupts",
    "background threads",
    "saving child",
    "saving child beside the server",
    "main thread alone",
    "whole plan",
]
GainVerdict = Literal["gains", "loses", "no clear difference", "not modelled"]

_BUSIEST_INTERRUPTS = 0.7
"""How busy a CPU that takes interrupts may be in a plan: beyond it packets queue."""

_MOST_QUEUES = 8
"""Queues of an elastic network adapter from 8 vCPUs on; smaller instances have one a vCPU."""

_NS_PER_S = 1e9


@dataclass(frozen=True)
class PieceGain(Result):
    """What a piece of the plan gains over leaving it to the kernel."""

    piece: Piece
    against: str
    """What it is compared with, in words."""
    verdict: GainVerdict
    """By the quantity that decides: `gains` or `loses` where its ratio differs clearly from 1."""
    decides: str
    """Which quantity that is: throughput, or p99 of an open loop that is kept up with."""
    differences: list[PairedQuantity]
    """`first` without the piece, `second` with it; empty where nothing was simulated."""
    note: str = ""
    """Why it is not modelled, or what is left out."""


def gain_of(piece: Piece, against: str, *, without: Prediction, plan: Prediction) -> PieceGain:
    """The plan against what it is without the piece."""
    decides = "throughput_rps" if without.overloaded else metric_of(plan)
    found = [paired_quantity(without, plan, name) for name in ("throughput_rps", "p99_ms")]
    told = next(each for each in found if each.quantity == decides)
    better = "lower" if decides == "p99_ms" else "higher"
    clear: GainVerdict = "gains" if told.verdict == better else "loses"
    verdict = clear if told.verdict in ("higher", "lower") else NO_CLEAR_DIFFERENCE
    return PieceGain(piece, against, verdict, decides, found)


def not_modelled(piece: Piece, note: str) -> PieceGain:
    """A piece that nothing can be said of."""
    return PieceGain(piece, "", "not modelled", "", [], note)


def machine_of(scenario: Scenario, system: System) -> CpuNumbers:
    """The CPUs of the scenario's host."""
    speed = system.host.speed()
    return CpuNumbers(
        cpus=speed.cores,
        threads_per_core=speed.threads_per_core,
        sibling_cpus=scenario.sibling_cpus,
    )


def server_cpus(scenario: Scenario, system: System) -> int:
    """CPUs for the server's threads: one each, or how many the scenario leaves them."""
    threads = min(scenario.io_threads, system.engine.max_io_threads)
    if system.engine.threading.locks_items:
        threads += moves_items(scenario)
    return min(threads, sharing(scenario, system.host.speed().cores).server_cores)


def busy_neighbours(scenario: Scenario) -> int:
    """Threads beside the server's that keep running, a load generator's on its host included."""
    generators = scenario.generator_threads if beside_server(scenario) else 0
    return scenario.other_busy_threads + generators


def interrupts_for(prediction: Prediction) -> int:
    """CPUs for interrupts: what the scenario says, else as many as its packets keep busy."""
    scenario, system = prediction.case.scenario, prediction.system
    if scenario.same_host or scenario.irq_cores > 0:
        return scenario.interrupt_cores
    speed = system.host.speed()
    results = [metrics.result for metrics in prediction.nominal]
    packets = sum(each.counters["packets_in"] for each in results)
    seconds = sum(each.window_s for each in results)
    busy = packets / seconds * speed.softirq_ns / _NS_PER_S
    whole = speed.cores - server_cpus(scenario, system) * speed.threads_per_core
    spare = whole - 1 - (1 if busy_neighbours(scenario) else 0)
    wanted = max(1, math.ceil(busy / _BUSIEST_INTERRUPTS))
    return max(0, min(wanted, spare, _MOST_QUEUES))


def as_planned(scenario: Scenario, placement: Placement) -> Scenario | None:
    """The scenario on the plan's CPUs; None where the model can't say it.

    That is where neighbours that keep running have some of the hyperthreads beside the server's.
    """
    busy = busy_neighbours(scenario)
    polls = scenario.idle_polls
    if not placement.whole_cores and busy > 0:
        # Nothing tells how often a thread meets a neighbour, unless each always does.
        beside = len(placement.neighbours)
        if not len(placement.server) == placement.server_cores <= min(beside, busy):
            return None
        polls = True
    load = scenario.load_generator
    if beside_server(scenario):
        load = load.model_copy(update={"cores": len(placement.neighbours)})
    return scenario.model_copy(
        update={
            "cores": len(placement.server),
            "physical_cores": placement.server_cores if placement.whole_cores else None,
            "irq_cores": len(placement.interrupts),
            "other_busy_threads": 0,
            "idle_polls": polls,
            "load_generator": load,
        }
    )


def to_the_kernel(scenario: Scenario) -> Scenario:
    """The scenario with everything left to the kernel, on the CPUs that it gives the server."""
    load = scenario.load_generator
    if beside_server(scenario):
        load = load.model_copy(update={"cores": None})
    return scenario.model_copy(
        update={"irq_cores": 0, "physical_cores": None, "load_generator": load}
        | {"main_thread_pinned": False}
    )


class Simulations:
    """Predictions of variants of one scenario, each simulated once."""

    def __init__(
        self,
        known: Sequence[Prediction],
        *,
        seed: int,
        executor: Executor,
        progress: Progress | None,
    ) -> None:
        self.system = known[0].system
        self._seed, self._executor, self._progress = seed, executor, progress
        # Pairs need as many runs on either side.
        self._draws, self._replications = len(known[0].drawn), len(known[0].nominal)
        self._known = {self._key(each.case.scenario): each for each in known}

    def of(self, scenarios: Sequence[Scenario]) -> list[Prediction]:
        """Their predictions, in that order."""
        keys = [self._key(scenario) for scenario in scenarios]
        missing = {
            key: scenario
            for key, scenario in zip(keys, scenarios, strict=True)
            if key not in self._known
        }
        if missing:
            found = predict_cases(
                [(Case(given={}, scenario=each), self.system) for each in missing.values()],
                seed=self._seed,
                draws=self._draws,
                replications=self._replications,
                executor=self._executor,
                progress=self._progress,
            )
            self._known.update(zip(missing, found, strict=True))
        return [self._known[key] for key in keys]

    def _key(self, scenario: Scenario) -> str:
        """Scenarios that run the same simulation have the same key."""
        groups = self.system.sharing(scenario)
        if scenario.cpu_quota_cores is None and not self.system.shares_cores(scenario):
            # Each thread has a core, however many there are.
            groups = OWN_CORES_EACH._replace(physical_cores=groups.physical_cores)
        load = scenario.load_generator.model_copy(update={"cores": None})
        plain = scenario.model_copy(
            update={
                "cores": None,
                "physical_cores": None if groups.physical_cores == 0 else scenario.physical_cores,
                "other_busy_threads": 0,
                "main_thread_pinned": False,
                "load_generator": load,
            }
        )
        return f"{plain.model_dump_json()} {groups}"


def gains_of(chosen: Prediction, placement: Placement, simulations: Simulations) -> list[PieceGain]:
    """What each piece of a plan gains, and what all of it does.

    Parameters
    ----------
    chosen
        The setting that is recommended, as the scenario has it.
    """
    scenario, system = chosen.case.scenario, chosen.system
    planned = as_planned(scenario, placement)
    if planned is None:
        why = "busy neighbours have hyperthreads of the server's cores"
        pieces: list[Piece] = ["threads", "neighbours", "interrupts", "background threads"]
        if forks(system.engine):
            pieces.append("saving child")
        return [not_modelled(piece, why) for piece in [*pieces, "whole plan"]]
    left = _left_out(scenario, planned, placement, system)
    needed = [planned, *(each.scenario for each in left if each.scenario is not None)]
    needed += [each.plan for each in left if each.plan is not None]
    simulations.of(needed)  # all at once
    found = []
    for each in left:
        if each.scenario is None:
            found.append(not_modelled(each.piece, each.note))
            continue
        plan, without = simulations.of([each.plan or planned, each.scenario])
        gain = gain_of(each.piece, each.against, without=without, plan=plan)
        found.append(replace(gain, note=each.note))
    return found


@dataclass(frozen=True)
class _LeftOut:
    """A piece, and the scenario without it; None where the model has no word for that."""

    piece: Piece
    against: str
    scenario: Scenario | None
    note: str = ""
    plan: Scenario | None = None
    """What it is compared with, if that is not the whole plan as it is."""


def _left_out(
    scenario: Scenario, planned: Scenario, placement: Placement, system: System
) -> list[_LeftOut]:
    """Every piece of the plan, with what is simulated in its place."""
    default = system.engine.threading.default_threads
    fewer = planned.model_copy(
        update={"io_threads": default, "cores": max(default, planned.cores or 1)}
    )
    name = "-t" if system.engine.threading.threads_alike else "io-threads"
    left = []
    if scenario.io_threads != default:
        against = f"{name} {default}, the engine's default, on CPUs of the plan"
        left.append(_LeftOut("threads", against, fewer))
    if placement.separates:
        left.append(_neighbours(scenario, planned))
        left.append(_interrupts(scenario, planned, placement))
        left.append(
            _LeftOut("background threads", "", None, "what these threads do is not simulated")
        )
        if forks(system.engine):
            left += _child(scenario, planned, placement)
    threads = min(scenario.io_threads, system.engine.max_io_threads)
    alike = system.engine.threading.threads_alike
    if not alike and 1 < len(placement.server) < threads:
        shared = planned.model_copy(update={"main_thread_pinned": False})
        pinned = planned.model_copy(update={"main_thread_pinned": True})
        against = "sharing its CPUs with I/O threads"
        left.append(_LeftOut("main thread alone", against, shared, plan=pinned))
    if placement.separates:
        left.append(_LeftOut("whole plan", "all left to the kernel", to_the_kernel(scenario)))
    return left


def _neighbours(scenario: Scenario, planned: Scenario) -> _LeftOut:
    if busy_neighbours(scenario) == 0:
        why = "the scenario names none; caches lost when Linux moves a thread are not simulated"
        return _LeftOut("neighbours", "", None, why)
    free = to_the_kernel(scenario)
    free = free.model_copy(
        update={
            "irq_cores": planned.irq_cores,
            "main_thread_pinned": scenario.main_thread_pinned,
        }
    )
    return _LeftOut("neighbours", "sharing the server's CPUs", free)


def _interrupts(scenario: Scenario, planned: Scenario, placement: Placement) -> _LeftOut:
    if scenario.same_host:
        return _LeftOut("interrupts", "", None, "there is no network between server and clients")
    if not placement.interrupts:
        return _LeftOut("interrupts", "", None, "no CPU is left for them")
    on_server = planned.model_copy(update={"irq_cores": 0})
    return _LeftOut("interrupts", "the server's threads taking them", on_server)


def _child(scenario: Scenario, planned: Scenario, placement: Placement) -> list[_LeftOut]:
    """During a save: a child that may run anywhere, and one that inherits the server's list."""
    during = "during a save, "
    if not placement.whole_cores:
        why = "it has a hyperthread beside the server's, as the kernel would give it"
        return [_LeftOut("saving child", "", None, why)]
    inherits = _LeftOut(
        "saving child beside the server",
        during + "a child that inherits the server's list",
        planned.model_copy(update={"other_busy_threads": 1}),
    )
    if busy_neighbours(scenario) > 0 and placement.background == placement.neighbours:
        why = "busy neighbours share its CPUs"
        return [_LeftOut("saving child", "", None, why), inherits]
    free = planned.model_copy(
        update={
            "cores": len(placement.server) + len(placement.background),
            "physical_cores": placement.server_cores + 1,
            "other_busy_threads": 1,
        }
    )
    against = during + "a child that may run on any of these CPUs"
    return [_LeftOut("saving child", against, free), inherits]


def placement_for(
    chosen: Prediction, simulations: Simulations
) -> tuple[Placement, PieceGain | None]:
    """The CPUs of the chosen setting; interrupts get some only where that doesn't lose.

    Returns
    -------
    Placement
        The lists.
    PieceGain or None
        What interrupts on CPUs of their own would have done, where they are left to the kernel.
    """
    scenario, system = chosen.case.scenario, chosen.system
    machine = machine_of(scenario, system)
    wanted = interrupts_for(chosen)
    server, busy = server_cpus(scenario, system), busy_neighbours(scenario)
    placement = place(machine, server=server, interrupts=wanted, busy_neighbours=busy)
    planned = as_planned(scenario, placement)
    if scenario.irq_cores > 0 or not placement.interrupts or planned is None:
        return placement, None
    on_server = planned.model_copy(update={"irq_cores": 0})
    plan, without = simulations.of([planned, on_server])
    gain = gain_of("interrupts", "the server's threads taking them", without=without, plan=plan)
    told = next(each for each in gain.differences if each.quantity == gain.decides)
    better = told.ratio is not None and (told.ratio.value > 1.0) == (gain.decides != "p99_ms")
    if better:
        return placement, None
    note = "left to the kernel: CPUs of their own would gain nothing"
    without_them = place(machine, server=server, interrupts=0, busy_neighbours=busy)
    return without_them, replace(gain, note=note)
