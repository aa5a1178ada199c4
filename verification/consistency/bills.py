"""What must hold of `memory` and `cost`, which nothing runs for."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from forecache.models.cost.answer import BreakEven, NodesBill
from forecache.models.cost.answer import cost as cost_of
from forecache.models.footprint.answers import MemoryPoint
from forecache.models.footprint.answers import memory as memory_of

from .breach import Breach, Held
from .draws import Draws

_SIZES = ("value_bytes", "member_bytes", "element_bytes", "field_bytes", "key_bytes")
_ITEMS = ("members", "fields", "elements")


def memory(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """Parts add up (the guard sees to that); more keys and longer ones weigh no less."""
    del number
    [point] = memory_of(data).points
    held = Held()
    used = point.used_memory_bytes.value
    place = draws.one_of(range(len(data["data"])))
    names = [n for n in (*_SIZES, *_ITEMS, "keys") if n in data["data"][place]]
    name = draws.one_of(names)
    more = deepcopy(data)
    before = more["data"][place][name]
    more["data"][place][name] = before + max(1, int(before * draws.between(0.01, 1.0)))
    [larger] = memory_of(more).points
    held.not_above(
        f"used memory does not fall with {'keys' if name == 'keys' else 'sizes'}",
        used,
        larger.used_memory_bytes.value,
        f"bytes with {name} of {data['data'][place]['type']} {before} and "
        f"{more['data'][place][name]}",
    )
    held.not_above("resident memory has used memory", used, point.resident_bytes, "bytes")
    _fits(held, data, point)
    return held.breaches


def _fits(held: Held, data: dict[str, Any], point: MemoryPoint) -> None:
    """As many keys as fit, do; more by a thousandth don't."""
    fits = point.fits
    if fits is None:
        return
    held.not_above(
        "no more keys fit while tables move", fits.keys_while_rehashing, fits.keys, "keys"
    )
    keys = point.keys
    if keys == 0 or fits.keys < 1000 or fits.limit != "maxmemory" or data.get("shards"):
        return
    for share, fit in ((0.999, True), (1.002, False)):
        scaled = deepcopy(data)
        for population in scaled["data"]:
            population["keys"] = round(population["keys"] * fits.keys / keys * share)
            if not 100 <= population["keys"] <= 10**11:
                return
        [there] = memory_of(scaled).points
        used = there.used_memory_bytes.value
        held.that(
            "as many keys as fit do, more don't",
            (used <= fits.limit_bytes * (1 + 1e-3)) if fit else (used > fits.limit_bytes * 0.999),
            f"{share:g} of {fits.keys} keys weigh {used:.6g} of {fits.limit_bytes:.6g} bytes",
        )


def cost(data: dict[str, Any], draws: Draws, *, number: int) -> list[Breach]:
    """Lines add up (the guard sees to that); more of anything costs no less."""
    del number
    [point] = cost_of(data).points
    held = Held()
    serverless = point.serverless.usd
    for field in ("data_gb", "requests"):
        more = deepcopy(data)
        if field == "data_gb":
            more["data_gb"] *= 1.5
        else:
            row = draws.one_of(more["requests"])
            row["per_s"] *= 2
        try:
            [larger] = cost_of(more).points
        except ValueError:
            continue  # more than nodes hold, say
        held.not_above(
            f"a bill does not fall with {field}", serverless, larger.serverless.usd, "USD"
        )
    if point.nodes is not None:
        _nodes(held, data, point.nodes, point.break_even)
    return held.breaches


def _nodes(held: Held, data: dict[str, Any], nodes: NodesBill, even: BreakEven | None) -> None:
    more, shards = deepcopy(data), nodes.shards
    held.not_above("as many shards as are needed", data["nodes"]["shards"], shards, "shards")
    more["nodes"]["shards"] = shards + 1
    [larger] = cost_of(more).points
    assert larger.nodes is not None
    before, after = nodes.usd, larger.nodes.usd
    held.adds_up("a bill is that of its nodes", after, [before * (shards + 1) / shards], "USD")
    if even is None or even.load_if_enough is None:
        return
    load = even.load_if_enough
    there = deepcopy(data)
    for row in there["requests"]:
        row["per_s"] *= load
    if load == 0.0:
        held.not_above(
            "where serverless costs more at any load, it does at none",
            nodes.usd,
            cost_of(there).points[0].serverless.usd,
            "USD",
        )
    elif max(row["per_s"] for row in there["requests"]) <= 1e9:
        [at_even] = cost_of(there).points
        held.adds_up(
            "at the break-even both cost the same",
            at_even.serverless.usd,
            [nodes.usd],
            f"USD at {load:.6g} times the load",
            by=1e-6,
        )
