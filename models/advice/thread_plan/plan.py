"""The thread plan of a recommended setting: CPUs, lines, and what it gains."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from forecache.sim.plain import Result

from ...prediction.predict import Prediction, Progress
from .gains import PlanGain, Variants, gain_of, machine_of, placement_for
from .lines import can_be_placed, conf_lines, files_of, forks, has_lists, taskset_line
from .placement import Placement, SiblingCpus


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
    placement = placement_for(chosen, variants)
    machine = machine_of(scenario, system)
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
        gain=gain_of(chosen, placement, variants),
    )


def _notes(chosen: Prediction, placement: Placement) -> list[str]:
    engine, machine = chosen.system.engine, machine_of(chosen.case.scenario, chosen.system)
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
