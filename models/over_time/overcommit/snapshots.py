"""Hosts as stacked bars at a few telling times: what is on them, and which machine moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...results.series import MOST_BARS, Bar, Layer, LimitLine, Stack
from .fleet import Fleet, Floats, Ints
from .manager import MachineMove, Manager

_OTHERS, _THIRD, _SECOND, _LARGEST, _CAME, _COPY, _LEAVES = range(7)
_LAYERS = (
    Layer("other machines"),
    Layer("third largest"),
    Layer("second largest"),
    Layer("largest machine"),
    Layer("came by migration", stands_out=True),
    Layer("copy on its way here", stands_out=True),
    Layer("leaves next", stands_out=True),
)
_MOST_TOLD = 3
"""Moves that are told about a host."""


@dataclass(frozen=True)
class FleetSnapshot:
    """Who had what where at one time; arrays as in `Fleet`."""

    title: str
    time_s: float
    host: Ints
    copy_to: Ints
    taken_gb: Floats
    up: NDArray[np.bool_]


class Snapshots:
    """Takes them: at the start, when a host was fullest, when most machines moved, at the end."""

    def __init__(self, fleet: Fleet, manager: Manager) -> None:
        self._fleet, self._manager = fleet, manager
        self._first = self._take("at the start", 0.0)
        self._fullest: FleetSnapshot | None = None
        self._before: tuple[float, FleetSnapshot] | None = None
        self._moving: tuple[tuple[int, float], FleetSnapshot] | None = None
        self._begun = 0
        self.fullest_share = float(self._shares().max())
        """Greatest share of a host's memory taken at any step."""

    def _shares(self) -> Floats:
        return self._fleet.host_gb() / self._fleet.memory_gb

    def _take(self, title: str, time_s: float) -> FleetSnapshot:
        fleet = self._fleet
        return FleetSnapshot(
            title,
            time_s,
            host=fleet.host.copy(),
            copy_to=fleet.copy_to.copy(),
            taken_gb=fleet.taken_gb.copy(),
            up=fleet.up.copy(),
        )

    def look(self, time_s: float) -> None:
        """Keep this step if it tells more than those before; to be called at each."""
        share = float(self._shares().max())
        begun = self._manager.begun - self._begun
        self._begun += begun
        if begun and self._before is not None:
            fullest, shot = self._before
            if self._moving is None or (begun, fullest) > self._moving[0]:
                self._moving = (begun, fullest), shot
        # Machines leave hosts that are hot, so that there is no need to keep other steps.
        hot = share > self._fleet.scenario.heat.move_above
        self._before = (share, self._take("when most machines moved", time_s)) if hot else None
        if share > self.fullest_share:
            self.fullest_share = share
            self._fullest = self._take("when a host was fullest", time_s)

    @property
    def fullest_s(self) -> float:
        """When that was."""
        return self._fullest.time_s if self._fullest else 0.0

    def stacks(self, *, end_s: float) -> list[Stack]:
        """The bars of each, now that the run has ended at `end_s`."""
        taken = {0.0: self._first, end_s: self._take("at the end", end_s)}
        for shot in (self._moving[1] if self._moving else None, self._fullest):
            if shot is not None:
                taken[shot.time_s] = shot
        return [_stack(taken[time_s], self._fleet, self._manager.moves) for time_s in sorted(taken)]


def _stack(shot: FleetSnapshot, fleet: Fleet, moves: Sequence[MachineMove]) -> Stack:
    heat = fleet.scenario.heat
    soon_s = shot.time_s + max(heat.look_every_s, fleet.scenario.step_s)
    leave = [m for m in moves if m.began_s <= soon_s and m.ended_s >= shot.time_s]
    leave = [m for m in leave if shot.host[m.machine] == m.source]
    came = {m.machine: m for m in moves if m.moved and m.ended_s <= shot.time_s}
    came = {k: m for k, m in came.items() if shot.host[k] == m.target}
    sizes_gb = _sizes_gb(shot, leave=[m.machine for m in leave], came=list(came))
    totals_gb = sizes_gb.sum(axis=1)
    up = np.flatnonzero(shot.up)
    order = up[np.argsort(-totals_gb[up], kind="stable")]
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_BARS)).round())
                  .astype(np.int64)]  # fmt: skip
    told: dict[int, list[str]] = {}
    for m in leave:
        size = f"machine {m.machine}, {shot.taken_gb[m.machine]:.3g} GB,"
        told.setdefault(m.source, []).append(f"{size} leaves for host {m.target}")
        told.setdefault(m.target, []).append(f"{size} comes from host {m.source}")
    for m in came.values():
        told.setdefault(m.target, []).append(f"machine {m.machine} came from host {m.source}")
    hot_gb = heat.move_above * fleet.memory_gb
    bars = [
        Bar(
            f"host {host}",
            sizes_gb[host].tolist(),
            flag="hot" if totals_gb[host] > hot_gb else "",
            note=_listed(told.get(int(host), [])),
        )
        for host in shown
    ]
    return Stack(
        shot.title,
        shot.time_s,
        "GB",
        "host",
        count=len(order),
        layers=_LAYERS,
        bars=bars,
        limits=[
            LimitLine("memory of a host", fleet.memory_gb),
            LimitLine(f"hot above {heat.move_above:.0%}", hot_gb),
        ],
    )


def _sizes_gb(shot: FleetSnapshot, *, leave: Sequence[int], came: Sequence[int]) -> Floats:
    """(hosts, layers) memory of each layer."""
    hosts = len(shot.up)
    here = np.flatnonzero(shot.host >= 0)
    layer = np.full(len(shot.host), _OTHERS)
    layer[list(came)] = _CAME
    layer[list(leave)] = _LEAVES
    staying = here[layer[here] == _OTHERS]
    order = staying[np.lexsort((-shot.taken_gb[staying], shot.host[staying]))]
    on = shot.host[order]
    rank = np.arange(len(order)) - np.searchsorted(on, on, side="left")
    for place, name in enumerate((_LARGEST, _SECOND, _THIRD)):
        layer[order[rank == place]] = name
    sizes_gb = np.zeros((hosts, len(_LAYERS)))
    np.add.at(sizes_gb, (shot.host[here], layer[here]), shot.taken_gb[here])
    copied = np.flatnonzero(shot.copy_to >= 0)
    np.add.at(sizes_gb[:, _COPY], shot.copy_to[copied], shot.taken_gb[copied])
    return sizes_gb


def _listed(notes: Sequence[str]) -> str:
    more = len(notes) - _MOST_TOLD
    return "; ".join([*notes[:_MOST_TOLD], *([f"{more} more"] if more > 0 else [])])
