"""The words of what today's nodes tell, and of how far they go."""

from collections.abc import Mapping, Sequence
from typing import Any

from forecache.models.advice.objective import LATENCIES
from forecache.models.plan.results import CapacityLimit, FromInfo, KnownField

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


def verdict_phrase(ceiling: CapacityLimit) -> str:
    """Whether today's nodes hold the load that is asked about, and where they stop."""
    if ceiling.peak_rps <= 0.0 or ceiling.ceiling_rps.value <= 0.0:
        return ""
    shards = ceiling.shards
    they = "shard" if shards == 1 else f"{shards} shards"
    asked, most = ceiling.times * ceiling.peak_rps * shards, ceiling.ceiling_rps
    load = "today’s peak" if ceiling.times == 1.0 else f"{ceiling.times:g} times the peak"
    busiest = max((each.rate_rps for each in ceiling.nodes), default=ceiling.peak_rps)
    busiest = max(busiest, ceiling.peak_rps)  # where it is much more than the mean, it stops first
    holds = ceiling.times * busiest <= most.value
    stop = [value / busiest for value in (most.value, most.low, most.high)]
    verb = ("holds" if holds else "does not hold") if shards == 1 else (
        "hold" if holds else "do not hold"
    )  # fmt: skip
    ends = "it stops" if shards == 1 else "they stop"
    return (
        f"Today’s {they} {verb} {load}, {rate(asked)}; {ends} at {rate(most.value * shards)}, "
        f"{_times(stop[0])} times the peak ({_times(stop[1])} to {_times(stop[2])}), "
        f"{limited_by(ceiling.bottleneck)}"
    )


def _times(value: float) -> str:
    return f"{value:.3g}" if value < 100 else count(round(value, -1))


def changes_phrase(ceiling: CapacityLimit) -> str:
    """What other settings of the same machines would serve."""
    if not ceiling.changes:
        return ""
    best, *others = ceiling.changes
    first = f"{best.ratio:.2g} times as much with {best.what}"
    more = [f"{each.ratio:.2g} times with {each.what}" for each in others]
    return f"In saturation the same machines would serve {', '.join([first, *more])}"


TIME_COLUMNS = ("main thread, at the mean load", "measured", "predicted", "corrected", "grows")


def time_rows(ceiling: CapacityLimit) -> list[list[str]]:
    """Where the main thread's time goes, in shares of the time."""

    def shown(share: float | None) -> str:
        return "" if share is None else f"{share:.2%}" if share < 0.1 else f"{share:.0%}"

    return [
        [
            each.part,
            shown(each.measured),
            shown(each.predicted),
            shown(each.after),
            "" if each.grows else "no",
        ]
        for each in ceiling.time
    ]


def time_legend(ceiling: CapacityLimit) -> str:
    """What the columns of that mean."""
    if not ceiling.corrected:
        return "The load is too light to tell what a command costs: nothing was corrected by it"
    return "corrected: predicted with the measurement taken into account, as all other answers are"


def troubles_heading() -> str:
    """What stands above what the files show to be wrong."""
    return "What these files show to be wrong"


def trouble_rows(found: FromInfo) -> list[tuple[str, str]]:
    """What the files show to be wrong, and what it costs and what to set."""
    several = len({node.name for node in found.nodes}) > 1
    return [
        (
            f"{each.node}: {each.what}" if several else each.what[:1].upper() + each.what[1:],
            f"{each.costs[:1].upper()}{each.costs[1:]}. To do: {each.remedy}.",
        )
        for each in found.troubles
    ]


def ceiling_phrase(ceiling: CapacityLimit) -> str:
    """How far a node goes, in a sentence."""
    rps = ceiling.ceiling_rps
    asked = " and ".join(
        f"{name[:-3]} at most {bound:g} ms" for name, bound in ceiling.objective.items()
    )
    if rps.value <= 0:
        return f"A node meets {asked} at no load; in saturation {limited_by(ceiling.bottleneck)}"
    does = f"meets {asked} up to" if asked else "serves"
    return (
        f"A node {does} {rate(rps.value)} ({rate(rps.low)} to {rate(rps.high)}); "
        f"in saturation {limited_by(ceiling.bottleneck)}"
    )


def not_modelled_phrase(found: FromInfo) -> str:
    """Why neither capacity nor headroom is given; empty where they may be."""
    return "No capacity, headroom or plan: too little is known" if found.needed else ""


def not_modelled_fact(found: FromInfo) -> str:
    """The commands that are not modelled, with their shares of the execution time."""
    most = list(found.not_modelled.items())[:_MOST_COMMANDS]
    return ", ".join(f"{name.upper()} {percent(share)}" for name, share in most)


def ceiling_facts(ceiling: CapacityLimit) -> list[str]:
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
