"""Overcommitted fleets: published live migrations, what decides how many there are, policies."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from forecache.models.over_time.overcommit.run import PER_MACHINE_DAY, run_overcommit
from forecache.models.over_time.overcommit.schema import DAY_S, OvercommitScenario
from forecache.sim.statistics import mean_interval, paired_difference

from ..harness import Asked, Files
from ..markdown import table
from . import live_migrations

ARTEFACT = Path("docs/accuracy/overcommit.json")

SEEDS = tuple(range(1, 6))

FLEET: dict[str, Any] = {
    "kind": "overcommit",
    "step_s": 20,
    "hosts": {"count": 111, "memory_gb": 768},
    "machines": {"count": 3_330, "unit_gb": 1},
    "heat": {"move_above": 0.7, "give_until": 0.9},
    "demand": {
        "mean_gb": 10,
        "spread": 1.5,
        "daily_swing": 0.3,
        "peak_spread_h": 8,
        "bursts": {"per_day": 1, "factor": 2, "minutes": 20},
    },
    "policies": {"placement": "unbalanced", "fill_until": 0.45},
}
"""A day of a fleet of the published shape: 111 hosts, most of them at half to 85% of where they are
hot, some nearly empty. What its machines want is assumed."""

CHANGES: dict[str, dict[str, Any]] = {
    "as assumed": {},
    "no bursts": {"demand": {"bursts": {"per_day": 0}}},
    "bursts three times as high": {"demand": {"bursts": {"factor": 3}}},
    "all peak together": {"demand": {"peak_spread_h": 0}},
    "a quarter of the machines, four times as large": {
        "machines": {"count": 832},
        "demand": {"mean_gb": 40},
    },
    "hosts filled to 60%": {"policies": {"fill_until": 0.6}},
    "20 tenants whose machines move together": {"demand": {"tenants": 20, "in_common": 1}},
    "bursts to a large part of a host": {
        "demand": {"bursts": {"per_day": 0.3, "factor": 25, "minutes": 40}}
    },
    "no hosts kept empty: best of two": {"policies": {"placement": "best_of_two"}},
}

SMALL: dict[str, Any] = FLEET | {"duration_s": 43_200, "hosts": {"count": 20, "memory_gb": 768}}
SMALL |= {"heat": {"move_above": 0.7, "give_until": 0.9, "look_every_s": 20}}

DEMANDS: dict[str, dict[str, Any]] = {
    "small steps": {"bursts": {"per_day": 1, "factor": 3, "minutes": 20}},
    "giants": {"bursts": {"per_day": 0.3, "factor": 25, "minutes": 40}},
}
"""Bursts to three times what a machine has, and to a large part of a host."""

PLACEMENTS = ("random", "best_of_two", "emptiest", "unbalanced")
VICTIMS = ("largest", "smallest_that_cools")
DENSITIES = {"small steps": (30, 40, 45), "giants": (10, 15, 20, 25, 30)}
"""Machines for each host."""
SHOWN = {"small steps": 40, "giants": 20}
"""Density of the table of one density."""

MOST_MIGRATIONS, MOST_SHORT = 100.0, 0.001
"""Limits up to which a density counts as reachable: migrations in 10,000 scale-ups, and share of
machines' time that is short of memory."""

_OUTPUTS = {
    "migrations in 10,000 scale-ups": "per_10000",
    "time short of memory": "short",
    "wait for memory, 99.9% of scale-ups": "wait",
    "time standing still": "still",
    "time lost to writes held up": "held",
    "nearly empty": "nearly_empty",
}


def _merged(data: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with some of its leaves replaced."""
    found = dict(data)
    for key, value in change.items():
        nested = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = _merged(found[key], value) if nested else value
    return found


def _facts(data: Mapping[str, Any], seed: int) -> dict[str, float]:
    run = run_overcommit(OvercommitScenario.model_validate(data), seed)
    facts = {
        # The study tells shares of time.
        f.name: float(f.value) / (DAY_S if f.unit == PER_MACHINE_DAY else 1.0)
        for f in run.facts
        if isinstance(f.value, int | float)
    }
    series = {(s.panel, s.name): s.values for s in run.series}
    shares = series["share of a host taken", "mean of hosts"]
    empty = series["hosts", "nearly empty"]
    return facts | {"mean share": float(shares.mean()), "nearly empty": float(empty.mean())}


def _all_facts(asked: Sequence[tuple[dict[str, Any], int]]) -> list[dict[str, float]]:
    """Facts of many runs, on all cores."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(_facts, *zip(*asked, strict=True), chunksize=1))


def scale_ups(seeds: Sequence[int] = (1, 2, 3)) -> list[dict[str, Any]]:
    """How many scale-ups need a migration, and what changes it."""
    asked = [(_merged(FLEET, change), seed) for change in CHANGES.values() for seed in seeds]
    found = iter(_all_facts(asked))
    rows = []
    for name in CHANGES:
        runs = [next(found) for _ in seeds]
        values = [run["migrations in 10,000 scale-ups"] for run in runs]
        rows.append(
            {
                "fleet": name,
                "scale_ups": float(np.mean([run["scale-ups"] for run in runs])),
                "per_10000": mean_interval(values).to_dict(),
                "mean_share": float(np.mean([run["mean share"] for run in runs])),
                "nearly_empty": float(np.mean([run["nearly empty"] for run in runs])),
            }
        )
    return rows


def policies(seeds: Sequence[int] = SEEDS) -> list[dict[str, Any]]:
    """Placements and victims at rising density; the same demand for all at one density."""
    keys = [
        (demand, victim, placement, density)
        for demand in DEMANDS
        for victim in VICTIMS
        for placement in PLACEMENTS
        for density in DENSITIES[demand]
    ]
    asked = []
    for demand, victim, placement, density in keys:
        change = {
            "machines": {"count": density * SMALL["hosts"]["count"]},
            "demand": DEMANDS[demand],
            "policies": {"placement": placement, "victim": victim, "fill_until": 0.5},
        }
        asked += [(_merged(SMALL, change), seed) for seed in seeds]
    found = iter(_all_facts(asked))
    runs = {key: [next(found) for _ in seeds] for key in keys}
    rows = []
    for demand in DEMANDS:
        for victim in VICTIMS:
            by_placement = {
                placement: [
                    [runs[demand, victim, placement, d][k] for d in DENSITIES[demand]]
                    for k in range(len(seeds))
                ]
                for placement in PLACEMENTS
            }
            for placement, by_seed in by_placement.items():
                rows.append(
                    {"demand": demand, "victim": victim, "placement": placement}
                    | _compared(by_seed, by_placement["best_of_two"], demand)
                )
    return rows


def _compared(
    own: Sequence[Sequence[dict[str, float]]],
    base: Sequence[Sequence[dict[str, float]]],
    demand: str,
) -> dict[str, Any]:
    """Reachable density and, at one density, everything else, against two random choices."""
    densities = DENSITIES[demand]
    reached = [reachable(densities, runs) for runs in own]
    others = [reachable(densities, runs) for runs in base]
    at = densities.index(SHOWN[demand])
    row: dict[str, Any] = {
        "density": mean_interval(reached).to_dict(),
        "density_gained": paired_difference(reached, others).to_dict(),
    }
    for fact, name in _OUTPUTS.items():
        mine, theirs = [runs[at][fact] for runs in own], [runs[at][fact] for runs in base]
        row[name] = mean_interval(mine).to_dict()
        row[f"{name}_difference"] = paired_difference(mine, theirs).to_dict()
    return row


def reachable(densities: Sequence[float], runs: Sequence[Mapping[str, float]]) -> float:
    """Machines for a host up to which both limits hold; straight between densities, from none at 0.

    No more than the highest density that was simulated.
    """
    below, strain_below = 0.0, 0.0
    for density, run in zip(densities, runs, strict=True):
        strain = max(
            run["migrations in 10,000 scale-ups"] / MOST_MIGRATIONS,
            run["time short of memory"] / MOST_SHORT,
        )
        if strain > 1.0:
            return below + (density - below) * (1.0 - strain_below) / (strain - strain_below)
        below, strain_below = density, strain
    return float(densities[-1])


def study() -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "migrations": live_migrations.study(),
        "scale_ups": scale_ups(),
        "policies": policies(),
        "seeds": len(SEEDS),
    }


def page(found: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    lines = [
        "# Overcommitted fleets",
        "",
        "Generated by `make evidence STUDY=overcommit`; nothing here is typed by hand."
        " [fleet.md](fleet.md#memory-promised-more-than-once) says what is modelled.",
        "",
        *live_migrations.section(found["migrations"]),
        "## How many scale-ups need a migration",
        "",
        "Amazon counted 2,923 in 16,440,024 scale-ups of its database fleet, 1.8 in 10,000 (R."
        " Barnhart and others, PVLDB 17(12), 2024). The table simulates a day of a fleet like the"
        " one in its figure 4. The demand of its machines is assumed. The height of bursts and how"
        " far hosts are filled were chosen with Amazon's number in view, so the first row is no"
        " prediction. The changes in the other rows are.",
        "",
        *table(
            ["fleet", ">scale-ups", ">migrations in 10,000", ">mean share taken"]
            + [">nearly empty hosts"],
            [
                [
                    row["fleet"],
                    f"{row['scale_ups']:,.0f}",
                    _with_interval(row["per_10000"]),
                    f"{row['mean_share']:.0%}",
                    f"{row['nearly_empty']:.0f} of 111",
                ]
                for row in found["scale_ups"]
            ],
        ),
        "",
        "A machine that grows finds room where it is as long as a step is small compared with what"
        " its host has left, and machines that grow at different times leave each other room. Rows"
        " that take one of these away show what it is worth: peaks together, few large machines,"
        " fuller hosts, higher bursts and most of all bursts to a large part of a host multiply the"
        " migrations. Twenty tenants whose machines move together don't, since every host has"
        " machines of most of them. Keeping some hosts nearly empty is not what makes migrations"
        " rare: the last row spreads machines evenly. It makes room for giants, as below.",
        "",
        "## Policies",
        "",
        f"20 hosts for half a day, {found['seeds']} replications with the same demand for all,"
        " filled to half. *Small steps*: bursts to three times what a machine has; *giants*:"
        " bursts to 25 times, a large part of a host. A density is feasible up to"
        f" {MOST_MIGRATIONS:.0f} migrations in 10,000 scale-ups and"
        f" {DAY_S * MOST_SHORT:.0f} s a machine-day short of memory, limits that were set with the"
        " first results in view. It is interpolated between the simulated densities and is at most"
        " the highest of them. Differences are from the best of two with the same victim; all"
        " intervals are 95%.",
        "",
        *table(
            ["demand", "who leaves a hot host", "placement", ">machines per host", ">gained"],
            [
                [
                    *_policy(row),
                    _with_interval(row["density"]),
                    _difference(row, "density_gained", 1),
                ]
                for row in found["policies"]
            ],
        ),
        "",
    ]
    shown = " and ".join(f"{density} with {demand}" for demand, density in SHOWN.items())
    lines += [
        f"What machines experience at one density ({shown}). The wait is that of the slowest one"
        " in 1,000 scale-ups; standing still is blackouts; held up are first writes to pages that"
        " were sent.",
        "",
        *table(
            ["demand", "who leaves", "placement", ">migrations in 10,000", ">difference"]
            + [">short of memory, s a day", ">difference", ">wait", ">standing still, ms a day"]
            + [">held up, ms a day", ">nearly empty hosts"],
            [
                [
                    *_policy(row),
                    _with_interval(row["per_10000"]),
                    _difference(row, "per_10000_difference", 1),
                    f"{DAY_S * row['short']['value']:.1f}",
                    _difference(row, "short_difference", DAY_S),
                    f"{row['wait']['value']:.0f} s",
                    f"{1e3 * DAY_S * row['still']['value']:.0f}",
                    f"{1e3 * DAY_S * row['held']['value']:.0f}",
                    f"{row['nearly_empty']['value']:.1f}",
                ]
                for row in found["policies"]
            ],
        ),
    ]
    return "\n".join([*lines, "", *_conclusion(found["policies"])]) + "\n"


def _policy(row: Mapping[str, Any]) -> list[str]:
    return [row["demand"], _words(row["victim"]), _words(row["placement"])]


def _conclusion(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """When hosts that are kept nearly empty pay; a test holds that the rows still say so."""
    row = {(r["demand"], r["victim"], r["placement"]): r for r in rows}
    kept = row["giants", "largest", "unbalanced"]
    level = row["giants", "largest", "best_of_two"]
    small = row["small steps", "smallest_that_cools", "unbalanced"]
    moved = row["giants", "smallest_that_cools", "unbalanced"]
    return [
        "Unbalanced placement pays where machines grow to a large part of a host and the manager"
        " moves those. A nearly empty host then has room that no evenly filled one has:"
        f" {kept['density']['value']:.0f} instead of {level['density']['value']:.0f} machines per"
        f" host, {_difference(kept, 'density_gained', 1)} more. In return there are"
        f" {kept['per_10000']['value']:.0f} instead of {level['per_10000']['value']:.0f}"
        " migrations in 10,000 scale-ups, and machines stand still for longer, since those that"
        " move are large. Elsewhere unbalanced placement hurts. With small steps no machine needs"
        " an empty host, and the full ones get"
        f" hot more often ({_difference(small, 'per_10000_difference', 1)} migrations when the"
        " smallest machine that cools a host is moved). With giants and the smallest machine moved,"
        " machines that leave hot hosts fill the empty ones"
        f" ({_difference(moved, 'density_gained', 1)} machines per host). Moving the smallest"
        " keeps waits for memory short at ten times the migrations. Random placement, two choices"
        " and the emptiest host differ little. Few hosts and heavy demand make the intervals wide.",
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _with_interval(found: Mapping[str, float]) -> str:
    return f"{found['value']:.1f} ({found['low']:.1f} to {found['high']:.1f})"


def _difference(row: Mapping[str, Any], name: str, scale: float) -> str:
    if row["placement"] == "best_of_two":
        return "–"
    found = row[name]
    return (
        f"{scale * found['value']:+.1f} ({scale * found['low']:+.1f} to "
        f"{scale * found['high']:+.1f})"
    )


def artefact(_asked: Asked) -> Files:
    """What the study found."""
    return {ARTEFACT: json.dumps(study(), indent=1) + "\n"}


def pages() -> Files:
    """The page, from the artefact."""
    return {Path("docs/overcommit.md"): page(json.loads(ARTEFACT.read_text(encoding="utf-8")))}
