"""What commands in turn cost beyond the same commands alone: code that comes back, and branches.

The study `mixing-counts` runs an engine in valgrind with a simulated instruction cache and branch
predictor. Each of many commands is sent alone, in pipelines, and sets of 2 to 32 of them in turn,
in an order drawn at random. What a command misses more in turn is what mixing costs it:
`models/step_times/command_times.py` has the line through these counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.bundle.profiles import Stage
from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import engine_version, find_engine
from forecache.calibration.observe.command_counts import RESTORE, in_valgrind, points_of
from forecache.calibration.observe.profilers.attribution import charge
from forecache.calibration.observe.profilers.callgrind import Counts
from forecache.models.scenario.command_table import COMMANDS
from forecache.sim.errors import EngineError

from ..harness import EMBEDDED, Asked, Files
from .shipped import json_text

ARTEFACT = Path("evidence/counts/mixing_counts.json")

L1I_KIB = (32, 64)
"""Instruction caches of eight ways: those of Zen 3 to 5 and older Xeons; of Neoverse V1 and V2,
and of Granite Rapids."""

DISTINCT = (2, 4, 8, 16, 32)
SETS = 3
"""Different commands in turn, and how many sets of each number are drawn."""

_EACH = 200
_PIPELINE = 10
_STAGES: tuple[Stage, ...] = ("parse", "lookup", "execute", "reply", "memory")
_EVENTS = {"instructions": ("Ir",), "lines": ("I1mr",), "branches": ("Bcm", "Bim")}


class _Commands:
    """The commands of the table as they are sent, each on keys of its own, small collections."""

    def __init__(self, control: RespClient) -> None:
        self._control = control
        self._points = {name: points_of(name)[0] for name in COMMANDS}
        self._first = {name: 1000 * (place + 1) for place, name in enumerate(COMMANDS)}
        self._random = np.random.default_rng(1)

    def make(self, name: str) -> None:
        """Make the keys that a command works on."""
        template = self._points[name].template
        self._control.command("DEL", template.name())
        for words in template.made_by():
            self._control.command(*words)
        self.restore(name)

    def restore(self, name: str) -> None:
        """Put copies of its key where it was, for it to change."""
        point, row = self._points[name], COMMANDS[name]
        expires, template = 10**8 if row.expires else 0, point.template
        further = range(1 if row.each else max(1, row.words.count("key")))
        names = [template.name(self._copy(name, n), k) for k in further for n in range(_EACH)]
        if "key" in row.each:
            names = [template.name(n) for n in range(1000)]
        for first in range(0, len(names), 100):
            some = names[first : first + 100]
            keys = [template.name(), *some]
            self._control.command("EVAL", RESTORE, len(keys), *keys, expires)

    def words(self, name: str, number: int) -> list[str]:
        """One command, the next of so many."""
        return self._points[name].words(self._random, self._copy(name, number))

    def _copy(self, name: str, number: int) -> int:
        return self._first[name] + number % _EACH

    def send(self, names: Sequence[str]) -> None:
        """Send each of these as often as the others, in an order drawn at random."""
        order = self._random.permutation(np.repeat(np.arange(len(names)), _EACH))
        count = dict.fromkeys(names, 0)
        batch: list[list[str]] = []
        for place in order:
            name = names[int(place)]
            batch.append(self.words(name, count[name]))
            count[name] += 1
            if len(batch) == _PIPELINE:
                self._control.pipeline(batch)
                batch = []


def _misses(counts: Counts, commands: int) -> dict[str, float]:
    """Events of one command since the last look."""
    found, _ = charge(counts.dump(), counts.on.stages)
    return {
        name: sum(found.get(stage, {}).get(event, 0.0) for stage in _STAGES for event in events)
        / commands
        for name, events in _EVENTS.items()
    }


def _count(binary: Path, l1i_kib: int, asked: Asked) -> dict[str, Any]:
    """What sets of commands miss in turn beyond each of them alone, with one cache."""
    name, version = engine_version(binary)
    options = [
        *("--cache-sim=yes", "--branch-sim=yes", f"--I1={l1i_kib * 1024},8,64"),
        *("--D1=32768,8,64", "--LL=1048576,16,64"),
    ]
    with in_valgrind(binary, *options) as server:
        counts = server.counts
        alone: dict[str, Mapping[str, float]] = {}
        for command in COMMANDS:
            # Not every version has it, and after an error other replies follow.
            with suppress(EngineError), server.client() as client:
                commands = _Commands(client)
                commands.make(command)
                commands.send([command])
                commands.restore(command)
                counts.skip()
                commands.send([command])
                alone[command] = _misses(counts, _EACH)
        commands = _Commands(server.control)
        random, rows = np.random.default_rng(2), []
        for distinct in DISTINCT:
            for _ in range(SETS):
                names = sorted(random.choice(sorted(alone), distinct, replace=False).tolist())
                for each in names:
                    commands.make(each)
                commands.send(names)
                for each in names:
                    commands.restore(each)
                counts.skip()
                commands.send(names)
                turn = _misses(counts, distinct * _EACH)
                apart = {e: float(np.mean([alone[n][e] for n in names])) for e in _EVENTS}
                more = {event: round(turn[event] - apart[event], 2) for event in _EVENTS}
                rows.append({"distinct": distinct, "commands": names, "more": more})
                asked.progress(f"{name} {version}, {l1i_kib} KiB, {distinct} in turn: {more}")
    return {"engine": name, "version": version, "l1i_kib": l1i_kib, "sets": rows}


def artefact(asked: Asked) -> Files:
    """Count on the engines at hand; those of the artefact that are not counted again stay."""
    kept = json.loads(ARTEFACT.read_text(encoding="utf-8")) if ARTEFACT.exists() else []
    for engine in asked.engines(("redis-server", "valkey-server", EMBEDDED)):
        binary = find_engine(engine)
        for l1i_kib in L1I_KIB:
            found = _count(binary, l1i_kib, asked)
            place = found["engine"], found["version"], l1i_kib
            kept = [e for e in kept if (e["engine"], e["version"], e["l1i_kib"]) != place]
            kept.append(found)
    return {ARTEFACT: json_text(kept)}
