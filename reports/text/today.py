"""The words of what today's nodes tell, and of how far they go."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecache.models.advice.objective import LATENCIES
from forecache.models.plan.bill.today import KnownField
from forecache.models.plan.results import Ceiling, FromInfo

from .formats import byte_size, count, milliseconds, percent, rate
from .wording import limited_by

_MOST_NODES = 6
_MOST_COMMANDS = 12


def nodes_rows(found: FromInfo) -> list[list[str]]:
    """Name, role, load, memory and keys of the busiest nodes."""
    busiest = sorted(found.nodes, key=lambda node: -node.peak_rps)[:_MOST_NODES]
    return [
        [
            node.name,
            node.role,
            rate(node.rate_rps),
            rate(node.peak_rps),
            byte_size(node.used_memory_bytes),
            count(node.keys),
        ]
        for node in busiest
    ]


def nodes_left(found: FromInfo) -> int:
    """Nodes that are not in these rows."""
    return max(0, len(found.nodes) - _MOST_NODES)


def known_rows(known: Sequence[KnownField]) -> list[tuple[str, str, str]]:
    """Field, value, and how it is known."""
    return [(each.field, _value(each), each.how) for each in known]


def unknown_heading() -> str:
    """What stands above what could not be known."""
    return "What these files do not say"


def not_used_heading() -> str:
    """What stands above what is known and not used."""
    return "What they say and a plan does not use"


def latency_heading(objective: Mapping[str, float]) -> str:
    """What stands above how long commands take, beside what is asked for."""
    asked = [
        f"{name[:-3]} at most {bound:g} ms"
        for name, bound in objective.items()
        if name in LATENCIES
    ]
    beside = f"; clients are to see {' and '.join(asked)}" if asked else ""
    return f"Inside the server today, without waiting and network{beside}"


def latency_rows(found: FromInfo) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and a row for each command."""
    names = list(dict.fromkeys(name for each in found.latencies for name in each.quantiles_ms))
    rows = [
        [
            each.command.upper(),
            count(each.calls),
            *(milliseconds(each.quantiles_ms.get(name)) for name in names),
            each.node,
        ]
        for each in found.latencies
    ]
    return ["command", "calls", *names, "slowest node"], rows


def _value(known: KnownField) -> str:
    if isinstance(known.value, dict):
        return ", ".join(f"{name} {_short(value)}" for name, value in known.value.items())
    if isinstance(known.value, list):
        return "; ".join(_short(value) for value in known.value)
    return _short(known.value)


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return count(round(value)) if value >= 1000 or isinstance(value, int) else f"{value:.4g}"
    if isinstance(value, dict):
        if "a_second" in value:
            items = ", ".join(
                f"{each} {name}" for name, each in value.items() if name != "a_second"
            )
            return f"{_short(value['a_second'])} of {items}"
        return ", ".join(f"{name} {_short(each)}" for name, each in value.items())
    return str(value)


def ceiling_phrase(ceiling: Ceiling) -> str:
    """How far a node goes, in a sentence."""
    rps = ceiling.ceiling_rps
    asked = " and ".join(
        f"{name[:-3]} at most {bound:g} ms" for name, bound in ceiling.objective.items()
    )
    if rps.value <= 0:
        return f"A node meets {asked} at no load; in saturation {limited_by(ceiling.bottleneck)}"
    return (
        f"A node meets {asked} up to {rate(rps.value)} ({rate(rps.low)} to {rate(rps.high)}); "
        f"in saturation {limited_by(ceiling.bottleneck)}"
    )


def not_modelled_phrase(found: FromInfo) -> str:
    """Why neither capacity nor headroom is given; empty where they may be."""
    return "No capacity, headroom or plan: too little is known" if found.needed else ""


def not_modelled_fact(found: FromInfo) -> str:
    """The commands that are not modelled, with their shares of the execution time."""
    most = list(found.not_modelled.items())[:_MOST_COMMANDS]
    return ", ".join(f"{name.upper()} {percent(share)}" for name, share in most)


def ceiling_facts(ceiling: Ceiling) -> list[str]:
    """Of what the ceiling is, and what is left to the busiest node."""
    found = [
        f"{ceiling.host}, {ceiling.engine} {ceiling.engine_version}, io-threads "
        f"{ceiling.io_threads}"
    ]
    if ceiling.nodes:
        busiest = ceiling.nodes[0]
        left = percent(busiest.headroom) if busiest.headroom > 0 else "nothing"
        found.append(f"{busiest.name}, the busiest: {rate(busiest.rate_rps)}, {left} left")
    return found
