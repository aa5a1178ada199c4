"""What lies in memory: the keys of a workload, and the lines a command on one of them touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import get_args

from forecache.sim.errors import InputError

from ..engines.commands import CommandKind, command_kinds, executed_kinds, keys_of_type
from ..engines.profile import EngineProfile, EngineWork
from ..layouts.generations import GENERATIONS, Generation, generation
from ..scenario.command_table import DataType
from ..scenario.schema import Scenario
from ..scenario.workload import Workload
from .caches import Population
from .collection_lines import collection_structures
from .key_lines import VALUE, structures
from .lines import LINE_BYTES, Structure

_LEAST_KEYS = 1e-6


def command_structures(
    kind: CommandKind, scenario: Scenario, engine: EngineProfile, work: EngineWork
) -> tuple[Structure, ...]:
    """The lines a command touches, scaled by what was observed."""
    workload, lone = scenario.workload, scenario.io_threads == 1
    return _command_structures(
        kind,
        engine.layout,
        None if kind.data_type == "string" else _rules(engine),
        all_keys=sum(keys_of_type(workload, held) for held in get_args(DataType)),
        key_bytes=workload.whole_key_bytes,
        touch_scale=work.touch_scale,
        # A lone main thread that looks a pipeline's keys up in groups may walk to the entries only;
        # the batches that come back from I/O threads fetch the value as well.
        to_entries=lone and not engine.lone_fetches_values,
        old_value_touches=work.value_touches if lone else 0.0,
    )


def _rules(engine: EngineProfile) -> Generation:
    """The layout of an engine's version, with the keys that its profile says.

    An engine of one's own has that of the newest known version with such keys.
    """
    try:
        rules = generation(engine.engine, engine.version)
    except InputError:
        return next(known for known in reversed(GENERATIONS) if known.keys == engine.layout)
    if rules.keys == engine.layout:
        return rules
    return rules.model_copy(update={"keys": engine.layout})


@lru_cache(maxsize=1024)
def _command_structures(
    kind: CommandKind,
    layout: str,
    rules: Generation | None,
    *,
    all_keys: int,
    key_bytes: int,
    touch_scale: float,
    to_entries: bool,
    old_value_touches: float,
) -> tuple[Structure, ...]:
    lines: Sequence[Structure]
    if rules is None:
        lines = structures(layout, keys=all_keys, key_bytes=key_bytes, value_bytes=kind.value_bytes)
        if kind.row.touches == "head":
            lines = [replace(s, followers=0.0) for s in lines if s.name != VALUE]
        elif kind.row.touches == "part":
            lines = [replace(s, followers=0.0) for s in lines]
    else:
        lines = collection_structures(kind, rules, all_keys=all_keys, key_bytes=key_bytes)
    if not kind.keys:
        return tuple(replace(s, touches=0.0, followers=0.0) for s in lines)
    # A SET writes its value where the one before it was released, so it touches as many lines as a
    # GET reads.
    scaled = [
        replace(
            s,
            touches=s.touches * touch_scale,
            prefetched=s.prefetched and not (to_entries and s.name == "value"),
            written=s.written or kind.stored_values > 0,
        )
        for s in lines
    ]
    if kind.stored_values and old_value_touches > 0:
        # A number of its own, which `touch_scale` leaves alone. No look-up brings it: besides the
        # old value it stands for the allocator's books and for the block that the new one gets.
        scaled.append(Structure("old value", 0.0, old_value_touches, prefetched=False))
    return tuple(scaled)


def keyspace(kind: CommandKind, scenario: Scenario) -> Workload:
    """The workload as the keys of a command's type see it: their number, all equally popular."""
    workload = scenario.workload
    if kind.data_type == "string":
        return workload
    return workload.model_copy(update={"keys": keys_of_type(workload, kind.data_type)})


def populations(
    kinds: Sequence[CommandKind], scenario: Scenario, engine: EngineProfile, work: EngineWork
) -> list[Population]:
    """What lies in memory, and how often a request touches it: strings of all sizes, collections.

    A SET touches as many lines as a GET.
    """
    workload = scenario.workload
    found = [
        Population(
            workload,
            command_structures(CommandKind("get", size, weight), scenario, engine, work),
            weight,
            keys_asked("string", kinds, workload),
        )
        for size, weight in workload.sizes
    ]
    for kind in kinds:
        if kind.data_type != "string":
            lines = command_structures(kind, scenario, engine, work)
            # Commands of a type share its lines, which are counted once.
            of_type = keys_asked(kind.data_type, kinds, workload)
            found.append(Population(keyspace(kind, scenario), lines, kind.share / of_type, of_type))
    return found


def keys_asked(data_type: str, kinds: Sequence[CommandKind], workload: Workload) -> float:
    """How many keys of a type a request asks for, in the mean over all requests."""
    if workload.only_get_and_set:
        # One, whatever the shares add up to.
        return 1.0
    of_type = [kind for kind in kinds if kind.data_type == data_type]
    asked = sum(kind.share * kind.keys for kind in of_type)
    # Commands without a key ask for hardly any instead of none, or the waits of theirs, which don't
    # count, would have no value.
    return max(_LEAST_KEYS, asked) if of_type else asked


def data_bytes(scenario: Scenario, engine: EngineProfile, work: EngineWork) -> float:
    """What all keys take in memory, as far as commands walk through it."""
    kinds = executed_kinds(command_kinds(scenario))
    found = populations(kinds, scenario, engine, work)
    lines = (
        population.share * population.workload.keys * structure.lines_per_key
        for population in found
        for structure in population.structures
    )
    return LINE_BYTES * sum(lines)


def prefetch_batch(scenario: Scenario, engine: EngineProfile) -> int:
    """Keys of one batched look-up; one means none, as always where the engine has no such thing."""
    if engine.prefetch_batch == 0:
        return 1
    given = scenario.prefetch_batch
    return max(1, engine.prefetch_batch if given is None else given)
