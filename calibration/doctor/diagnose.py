"""`forecache doctor`: looks at everything once, and changes nothing but an empty cache folder."""

import time
from collections.abc import Callable
from pathlib import Path

from forecache import __version__
from forecache.hwprofiles.capture.machine import Machine, inspect_machine
from forecache.hwprofiles.capture.noise import measure_noise
from forecache.hwprofiles.capture.surroundings import inspect_surroundings
from forecache.sim.errors import InputError

from .abilities import Ability, Diagnosis
from .machine_abilities import machine_abilities, python_ability
from .program_abilities import browser_ability, engine_abilities, profiler_abilities
from .software_abilities import cache_ability, compiled_ability, extras_ability


def diagnose(
    *,
    root: Path = Path("/"),
    measure: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Diagnosis:
    """Find out what this machine allows, in about six seconds.

    Parameters
    ----------
    root
        Where `proc` and `sys` are found, for tests.
    measure
        Whether to measure noise and the simulation's speed, which takes half of the time.
    progress
        Called with one line of text as each part starts.
    """
    say = progress or (lambda _: None)
    start_s = time.monotonic()
    machine = _machine(root)
    abilities: list[Ability] = [python_ability(machine)]
    say("the compiled simulation")
    abilities.append(compiled_ability(measure=measure))
    around = None
    if machine is not None:
        say("noise of this machine")
        # As many as a measurement keeps busy.
        cpus = machine.pair or machine.cpus[:1]
        noise = measure_noise(cpus) if measure else None
        around = inspect_surroundings(root=root, cpu=machine.cpus[0])
        abilities += machine_abilities(machine, around, noise)
    say("profilers")
    abilities += profiler_abilities(around)
    say("engines and tools")
    abilities += engine_abilities()
    abilities += [extras_ability(), browser_ability(), cache_ability()]
    return Diagnosis(
        version=__version__, abilities=tuple(abilities), took_s=time.monotonic() - start_s
    )


def _machine(root: Path) -> Machine | None:
    """What the kernel says; None on a system that is not supported."""
    try:
        return inspect_machine(root=root)
    except InputError:
        return None
