"""Writes docs/hosts.md from the catalogue."""

from collections.abc import Iterable, Iterator, Sequence

from forecache.hwprofiles.catalogue import list_hosts
from forecache.hwprofiles.instances import InstanceFamily, families
from forecache.hwprofiles.quantity import Curve, Origin, Quantity, Source
from forecache.hwprofiles.schema import HostProfile

_HEAD = """\
# Hosts and instances

Written by `make docs` from the catalogue in `hwprofiles/`; a test holds the two equal.
[Add a host](add-a-host.md) says how to add one.

Every number has a kind. *Measured* and *published* (a specification or a price) come from the
source named; *derived* follows by its formula from other numbers; *assumed* is a judgement for the
reason given, and always has a range. Where the value is empty it is unknown and predictions use the
geometric middle of the range. *Reviewed* means that a second derivation, made without looking at
the first, agreed; numbers without this word are provisional.
"""


def page() -> str:
    """The whole page."""
    hosts = list_hosts()
    return "\n".join([_HEAD, *_summary(hosts), *_instances(), *_each_host(hosts)]).rstrip() + "\n"


def _summary(hosts: Iterable[HostProfile]) -> Iterator[str]:
    yield "## Overview\n"
    yield from _table(
        ("Host", "What it is", "Core", "Cores", "GHz", "L2 ns", "L3 ns", "DRAM ns", "Core to core"),
        (
            (
                f"[{host.id}](#{host.id})",
                host.title,
                host.microarchitecture,
                _number(host.topology.cores.best),
                _number(host.clock_ghz.best),
                *(_short(cache.latency_ns) for cache in host.caches[1:]),
                _short(host.dram.latency_ns),
                f"{_short(host.core_to_core_ns)} ns",
            )
            for host in hosts
        ),
    )


def _short(quantity: Quantity) -> str:
    if quantity.value is None:
        return f"{_number(quantity.low)} to {_number(quantity.high)}"
    return f"{quantity.value:.3g}"


def _instances() -> Iterator[str]:
    yield "## Instances\n"
    yield (
        "A vCPU of a Graviton instance is a core; a vCPU of an Intel instance is a hyperthread, "
        "half a core. Network is the guaranteed baseline and the burst; prices are on demand.\n"
    )
    for family in families().values():
        yield f"### {family.title}\n"
        price, memory = family.usd_per_vcpu_hour, family.memory_gib_per_vcpu
        yield (
            f"Host [{family.host}](#{family.host}). {_number(memory.best)} GiB a vCPU, "
            f"{_number(price.best)} USD a vCPU and hour"
            f"{f' (`{price.formula}`)' if price.formula else ''} in {family.region}, "
            f"{family.price_date}: {price.method}. Network: {family.network.method}.\n"
        )
        yield from _table(
            ("Instance", "vCPUs", "GiB", "Gbit/s", "burst", "USD/h"),
            (
                (
                    f"{family.family}.{size}",
                    str(row.vcpus),
                    _number(row.vcpus * memory.best),
                    _number(row.baseline_gbit_per_s),
                    _number(row.burst_gbit_per_s),
                    f"{row.vcpus * price.best:.4f}",
                )
                for size, row in family.sizes.items()
            ),
        )
        yield f"Sources: {_family_sources(family)}.\n"


def _family_sources(family: InstanceFamily) -> str:
    return ", ".join(_link(source) for source in family.sources.values())


def _each_host(hosts: Iterable[HostProfile]) -> Iterator[str]:
    for host in hosts:
        yield f"## {host.id}\n"
        yield f"{host.title}: {host.microarchitecture}, {host.isa}.\n"
        yield from (f"- {note}" for note in host.notes)
        yield ""
        yield from _table(
            ("Number", "Value", "Range", "Unit", "Kind", "Source", "How or why"),
            (
                (
                    f"`{path}`",
                    "" if leaf.value is None else _number(leaf.value),
                    "" if leaf.low is None else f"{_number(leaf.low)} to {_number(leaf.high)}",
                    leaf.unit,
                    _kind(leaf),
                    leaf.source or "",
                    _reason(leaf),
                )
                for path, leaf in host.quantities()
            ),
        )
        for path, leaf in host.origins():
            if isinstance(leaf, Curve):
                points = ", ".join(f"{_number(y)} at {_number(x)}" for x, y in leaf.points)
                yield (
                    f"`{path}`, {leaf.y_unit} at {leaf.x_unit} ({_kind(leaf)}, {leaf.source}; "
                    f"{leaf.method}): {points}.\n"
                )
        yield "Sources:\n"
        for key, source in host.sources.items():
            details = [f"read {source.accessed}" if source.accessed else "", source.licence or ""]
            text = ", ".join(filter(None, [_link(source), *details]))
            taken = [
                f"`{dataset}` {', '.join(map(str, points)) or 'none'}"
                for dataset, points in (source.points or {}).items()
            ]
            notes = [source.note or "", f"Points taken: {'; '.join(taken)}" if taken else ""]
            yield f"- **{key}**: {'. '.join(filter(None, [text, *notes]))}"
        yield ""


def _kind(leaf: Origin) -> str:
    return leaf.kind if leaf.status == "provisional" else f"{leaf.kind}, {leaf.status}"


def _reason(leaf: Quantity) -> str:
    return "; ".join(filter(None, [f"`{leaf.formula}`" if leaf.formula else "", leaf.method]))


def _link(source: Source) -> str:
    return f"[{source.title}]({source.url})" if source.url else f"{source.title} ({source.file})"


def _number(value: float | None) -> str:
    """Up to six significant digits, without an exponent; sizes in bytes stay exact."""
    if value is None:
        return ""
    if value == int(value):
        return f"{int(value):,}".replace(",", " ") if abs(value) >= 10_000 else str(int(value))
    return f"{value:.6g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""
