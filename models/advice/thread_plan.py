"""The thread plan of a recommended setting: which CPUs it gets, and what that gains.

`placement.py` lays out the CPUs and `configuration.py` writes the files that make it so. The plan
and the scenario with all threads left to the kernel are simulated under the same random streams and
draws, so that what they share cancels (`paired.py`); what would run the same simulation is not
simulated again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Literal

from forecache.sim.plain import Result
from forecache.sim.words import NO_CLEAR_DIFFERENCE

from ..prediction.predict import Prediction, Progress, predict_cases
from ..prediction.system import System
from ..scenario.schema import Scenario
from ..scenario.sweeps import Case
from ..step_times.cores import OWN_CORES_EACH, beside_server, sharing
from ..step_times.policy_times import moves_items
from .configuration import can_be_placed, conf_lines, files_of, forks, has_lists, taskset_line
from .effects import deciding_metric
from .paired import PairedQuantity, paired_quantity
from .placement import CpuNumbers, Placement, SiblingCpus, place


@dataclass(frozen=True)
class ThreadPlan(Result):
    """Which CPUs everything on the server's host gets.

    Lists are of CPUs as Linux numbers them. `server` is that of main thread and I/O threads
    together, `background` that of background threads and saving children, `neighbours` that of
    everything else, `idle` has hyperthreads that stay free beside the server's. All are empty
    where the server's threads need every CPU, but `server`.
    """

    cpus: int
    threads_per_core: int
    sibling_cpus: SiblingCpus
    server: list[int]
    interrupts: list[int]
    background: list[int]
    neighbours: list[int]
    idle: list[int]
    whole_cores: bool
    """Whether nobody else has a CPU on the server's physical cores."""
    conf: list[str]
    """Lines for the engine's configuration file beside its settings."""
    start: str
    """The command that starts it there; empty where nothing is kept apart."""
    files: dict[str, str]
    """What to install, by path."""
    notes: list[str]
    gain: PlanGain | None
    """Over leaving all threads to the kernel; None where nothing is kept apart."""


def thread_plan(
    chosen: Prediction,
    *,
    seed: int,
    executor: Executor,
    progress: Progress | None,
) -> ThreadPlan | None:
    """The plan for a setting; None for an engine that only a service runs.

    Parameters
    ----------
    chosen
        The setting, predicted as the scenario has it.
    seed
        With which it was predicted.
    """
    scenario, system = chosen.case.scenario, chosen.system
    if not can_be_placed(system.engine):
        return None
    variants = Variants(chosen, seed, executor, progress)
    placement = choose_placement(variants)
    machine = cpu_numbers(scenario, system)
    return ThreadPlan(
        cpus=machine.cpus,
        threads_per_core=machine.threads_per_core,
        sibling_cpus=machine.sibling_cpus,
        server=list(placement.server),
        interrupts=list(placement.interrupts),
        background=list(placement.background),
        neighbours=list(placement.neighbours),
        idle=list(placement.idle),
        whole_cores=placement.whole_cores,
        conf=conf_lines(system.engine, placement),
        start=taskset_line(scenario, system.engine, placement) if placement.separates else "",
        files=files_of(scenario, system.engine, machine, placement),
        notes=_notes(chosen, placement),
        gain=plan_gain(placement, variants),
    )


def _notes(chosen: Prediction, placement: Placement) -> list[str]:
    engine, machine = chosen.system.engine, cpu_numbers(chosen.case.scenario, chosen.system)
    if not placement.separates:
        return ["The server's threads need every CPU of this host: nothing can be kept off them."]
    notes = []
    if has_lists(engine):
        server, *_ = (line.split()[0] for line in conf_lines(engine, placement))
        notes.append(
            f"{server} is one list for the main thread and all I/O threads. A child without a list "
            "of its own inherits it."
        )
    elif forks(engine):
        notes.append(f"{engine.id} has no lists of CPUs: Linux places its threads on those given.")
    if machine.threads_per_core > 1:
        rule = {
            "halves": f"CPU i and i + {machine.cpus // machine.threads_per_core}",
            "pairs": "CPU 2i and 2i + 1",
        }[machine.sibling_cpus]
        notes.append(f"{rule} are taken to be one core: check-cpus.sh tells (sibling_cpus).")
    if not placement.whole_cores:
        notes.append("Others have hyperthreads beside the server's: no whole core is left.")
    if placement.background == placement.neighbours:
        notes.append("Background threads, children and neighbours share what is left.")
    return notes


GainVerdict = Literal["gains", "loses", "no clear difference", "not modelled"]

_BUSIEST_INTERRUPTS = 0.7
"""How busy a CPU that takes interrupts may be in a plan: beyond it packets queue."""

_MOST_QUEUES = 8
"""Queues of an elastic network adapter from 8 vCPUs on; smaller instances have one a vCPU."""

_NS_PER_S = 1e9


@dataclass(frozen=True)
class PlanGain(Result):
    """What a plan gains over leaving all threads to the kernel."""

    verdict: GainVerdict
    """By the quantity that decides: `gains` or `loses` where its ratio differs clearly from 1."""
    decides: str
    """Which quantity that is: throughput, or p99 of an open loop that is kept up with."""
    differences: list[PairedQuantity]
    """`first` without the plan, `second` with it; empty where nothing was simulated."""
    note: str = ""
    """Why it is not modelled."""


def cpu_numbers(scenario: Scenario, system: System) -> CpuNumbers:
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
    """Busy threads of other programs, a load generator on the same host included."""
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


def planned_scenario(scenario: Scenario, placement: Placement) -> Scenario | None:
    """The scenario on the plan's CPUs; None where the model does not cover it.

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


def unplaced_scenario(scenario: Scenario) -> Scenario:
    """The scenario with everything left to the kernel, on the CPUs that it gives the server."""
    load = scenario.load_generator
    if beside_server(scenario):
        load = load.model_copy(update={"cores": None})
    return scenario.model_copy(
        update={"irq_cores": 0, "physical_cores": None, "load_generator": load}
        | {"main_thread_pinned": False}
    )


@dataclass(frozen=True)
class Variants:
    """Predictions of variants of a recommended setting, under the same random streams."""

    chosen: Prediction
    seed: int
    executor: Executor | None = None
    progress: Progress | None = None

    def of(self, scenarios: Sequence[Scenario], *, draws: int | None = None) -> list[Prediction]:
        """Their predictions, in that order; what runs the same simulation is simulated once.

        Parameters
        ----------
        draws
            As many as the setting has if left out, since pairs need them.
        """
        found = {self._key(self.chosen.case.scenario): self.chosen}
        missing = {self._key(each): each for each in scenarios if self._key(each) not in found}
        if missing:
            predictions = predict_cases(
                [(Case(given={}, scenario=each), self.chosen.system) for each in missing.values()],
                seed=self.seed,
                draws=len(self.chosen.drawn) if draws is None else draws,
                replications=len(self.chosen.nominal),
                executor=self.executor,
                progress=self.progress,
            )
            found |= zip(missing, predictions, strict=True)
        return [found[self._key(each)] for each in scenarios]

    def _key(self, scenario: Scenario) -> str:
        """Scenarios that run the same simulation have the same key."""
        system = self.chosen.system
        groups = system.sharing(scenario)
        if scenario.cpu_quota_cores is None and not system.shares_cores(scenario):
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


def plan_gain(placement: Placement, variants: Variants) -> PlanGain | None:
    """What a plan gains over leaving all to the kernel; None where it keeps nothing apart."""
    scenario = variants.chosen.case.scenario
    planned = planned_scenario(scenario, placement)
    if planned is None:
        why = "busy neighbours have hyperthreads of the server's cores"
        return PlanGain("not modelled", "", [], why)
    if not placement.separates:
        return None
    plan, without = variants.of([planned, unplaced_scenario(scenario)])
    decides = "throughput_rps" if without.overloaded else deciding_metric(plan)
    found = [paired_quantity(without, plan, name) for name in ("throughput_rps", "p99_ms")]
    told = next(each for each in found if each.quantity == decides)
    better = "lower" if decides == "p99_ms" else "higher"
    clear: GainVerdict = "gains" if told.verdict == better else "loses"
    verdict = clear if told.verdict in ("higher", "lower") else NO_CLEAR_DIFFERENCE
    return PlanGain(verdict, decides, found)


def choose_placement(variants: Variants) -> Placement:
    """The CPUs of the chosen setting; interrupts get their own only where that does not lose."""
    chosen = variants.chosen
    scenario, system = chosen.case.scenario, chosen.system
    machine = cpu_numbers(scenario, system)
    wanted = interrupts_for(chosen)
    server, busy = server_cpus(scenario, system), busy_neighbours(scenario)
    placement = place(machine, server=server, interrupts=wanted, busy_neighbours=busy)
    planned = planned_scenario(scenario, placement)
    if scenario.irq_cores > 0 or not placement.interrupts or planned is None:
        return placement
    on_server = planned.model_copy(update={"irq_cores": 0})
    plan, without = variants.of([planned, on_server], draws=0)
    name = "throughput_rps" if without.overloaded else deciding_metric(plan)
    with_them, without_them = plan.mean(name), without.mean(name)
    if with_them < without_them if name == "p99_ms" else with_them > without_them:
        return placement
    return place(machine, server=server, interrupts=0, busy_neighbours=busy)
