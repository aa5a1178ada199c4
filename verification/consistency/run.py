"""Draw scenarios, check them on all cores, print what contradicts itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import yaml

from forecache.sim.errors import InputError

from ..check import Check, Finding
from . import bills, node, over_time, scenarios
from .breach import Breach
from .draws import Draws

SEED = 1
COUNT = 1_000
"""Scenarios of each kind."""

OF_A_POLICY = 5
"""A threading policy has a fifth of the scenarios of a kind."""

_BATCH = 10

Verdicts = Callable[..., list[Breach]]

CHECKS_OF: dict[str, Verdicts] = {
    **{f"node, {policy}": node.check for policy in scenarios.POLICIES},
    "cluster": over_time.cluster,
    "lookaside": over_time.cluster,
    "serverless": over_time.serverless,
    "large_commands": over_time.large_commands,
    "node_life": over_time.node_life,
    "overcommit": over_time.overcommit,
    "memory": bills.memory,
    "cost": bills.cost,
}
"""What is asked of a scenario of each kind; of a node by threading policy."""

KINDS = tuple(CHECKS_OF)


def scenario_of(kind: str, draws: Draws) -> dict[str, Any]:
    """A scenario of a kind, of a node with the policy behind the comma."""
    if kind.startswith("node, "):
        return scenarios.node(draws, kind.removeprefix("node, "))
    return scenarios.OTHERS[kind](draws)


@dataclass
class Tally:
    """What some scenarios of a kind gave."""

    kind: str
    valid: int = 0
    refused: int = 0
    seconds: float = 0.0
    broken: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    """What to print: seed, scenario, invariant and numbers of each contradiction."""

    @property
    def contradictory(self) -> int:
        """Scenarios with a contradiction."""
        return len(self.told)


def check_scenario(kind: str, seed: int, number: int) -> tuple[dict[str, Any], list[Breach]]:
    """One scenario and what contradicts itself in what is said of it.

    Raises
    ------
    InputError
        It is not valid: what a scenario may be is decided in more places than the draws know.
    """
    data = scenario_of(kind, Draws(seed, kind, number))
    try:
        breaches = CHECKS_OF[kind](data, Draws(seed, f"{kind}, check", number), number=number)
    except InputError:
        raise
    except Exception as error:
        breaches = [Breach("no fault of the program", f"{type(error).__name__}: {error}"[:500])]
    return data, breaches


def _batch(kind: str, seed: int, numbers: range) -> Tally:
    tally, began_s = Tally(kind), time.perf_counter()
    for number in numbers:
        try:
            data, breaches = check_scenario(kind, seed, number)
        except InputError:
            tally.refused += 1
            continue
        tally.valid += 1
        if breaches:
            tally.broken.update(breach.invariant for breach in breaches)
            lines = [f"{kind}: seed {seed}, scenario {number}"]
            lines += [f"  {breach.invariant}: {breach.numbers}" for breach in breaches]
            text = yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=1_000)
            tally.told.append("\n".join([*lines, f"  {text.strip()}"]))
    tally.seconds = time.perf_counter() - began_s
    return tally


def _wanted(kind: str, count: int) -> int:
    return max(1, count // OF_A_POLICY) if kind.startswith("node, ") else count


def consistency(
    *,
    seed: int = SEED,
    count: int = COUNT,
    kinds: Iterable[str] = KINDS,
    processes: int | None = None,
    first: int = 0,
) -> list[Finding]:
    """Check a number of scenarios of each kind, and a fifth as many of each threading policy.

    Parameters
    ----------
    processes
        At a time; as many as there are cores if left out, none besides this one if 0.
    first
        Number of the first scenario.
    """
    print(f"  seed {seed}, {count} scenarios of a kind", flush=True)
    findings = []
    if processes == 0:
        tallies = (_collected(kind, seed, _wanted(kind, count), map, first) for kind in kinds)
        return [_finding(tally) for tally in tallies]
    with ProcessPoolExecutor(processes) as pool:
        for kind in kinds:
            findings.append(_finding(_collected(kind, seed, _wanted(kind, count), pool.map, first)))
    return findings


def _collected(kind: str, seed: int, wanted: int, each: Callable[..., Any], first: int) -> Tally:
    """The first `wanted` valid scenarios of a kind, batch by batch."""
    total, began_s = Tally(kind), time.perf_counter()
    while total.valid < wanted:
        missing = wanted - total.valid
        ends = range(first, first + missing, _BATCH)
        batches = [range(n, min(n + _BATCH, first + missing)) for n in ends]
        for tally in each(partial(_batch, kind, seed), batches):
            total.valid += tally.valid
            total.refused += tally.refused
            total.broken += tally.broken
            total.told += tally.told
        first += missing
        if total.refused > 10 * wanted:
            raise RuntimeError(f"hardly any scenario of {kind} is valid")
    total.seconds = time.perf_counter() - began_s
    return total


def _finding(tally: Tally) -> Finding:
    for told in islice(tally.told, 20):
        print(told, flush=True)
    if tally.contradictory > 20:
        print(f"{tally.kind}: {tally.contradictory - 20} more", flush=True)
    for invariant, times in tally.broken.most_common():
        print(f"  {tally.kind}: {times} times: {invariant}", flush=True)
    print(
        f"  {tally.kind}: {tally.valid} scenarios in {tally.seconds:.0f} s, {tally.refused} draws "
        f"refused, {tally.contradictory} with a contradiction",
        flush=True,
    )
    without = tally.valid - tally.contradictory
    return Finding(
        f"{tally.kind}: scenarios without a contradiction",
        tally.valid,
        without,
        tally.valid,
        float("inf"),
        tally.contradictory == 0,
    )


CHECKS = [
    Check(
        "consistency",
        "random valid scenarios of every kind and verb, whose answers must agree with each other",
        consistency,
    )
]
