"""Writes docs/hosts.md from the catalogue."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from forecache.hwprofiles.catalogue import list_hosts
from forecache.hwprofiles.instances import (
    REFERENCE,
    Hypervisor,
    HypervisorName,
    Instance,
    InstanceFamily,
    catalogue_families,
    list_instances,
)
from forecache.hwprofiles.quantity import Curve, Origin, Quantity, Source
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.words import any_of

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


_SECOND_READING = """\
**A second reading.** On 2026-11-25 somebody who had not entered the tables, and had not seen them,
read thirty instances from public sources: vCPUs, memory, baseline and burst, core or thread,
architecture, price. Of 210 comparisons 190 agree, 16 are empty on both sides (Google and Microsoft
name no baseline), one differs by rounding (4e-8 of a C4D price), and three prices that the tables
leave empty were found by the reader as estimates only (v6 of Azure), so they stay empty.
`tests/hwprofiles/data/second_reading.csv` has what was read, and a test holds the tables to it.

* EC2: c6g.medium, c8g.24xlarge, c6i.32xlarge, c8i.96xlarge, m6g.8xlarge, m7g.xlarge, m7i.4xlarge,
  m6a.48xlarge, m8a.16xlarge, r6g.2xlarge, r7g.12xlarge, r8g.large, r8i.2xlarge, r7a.medium. AWS's
  own pages for 13 of 14 bandwidths and for all else but prices. Prices: the tables' own file, found
  again by itself; other lists have ten of the fourteen, among them c8i.96xlarge as AWS's price list
  of 2026-07-28 has it. Nothing else was seen for c8g.24xlarge, r7a.medium and m8a.16xlarge, and
  r8i.2xlarge only at other prices of unknown regions.
* Compute Engine: c3-highmem-22, c4-standard-8, c4-highcpu-96, c4a-highmem-72, c4d-highmem-16,
  n2-highmem-128, n4-standard-64, t2a-standard-4. Google's pages of machine types and of prices, in
  us-central1; the tables take prices from another file and have those of us-east1.
* Azure: D8s_v5, E96_v5, E96s_v5, D192s_v6, D64ps_v5, D16ps_v6, D48as_v5, D64as_v6 (each
  `Standard_`). Microsoft's articles, the repository that the tables were taken from as well, since
  there is no other. Prices: SkyPilot's catalogue, where the tables have Karpenter's.

Not looked at: all other rows, r3 and m1, what was added later, bandwidths with Tier_1, the
profiles of hosts.
"""

_PROVIDERS = {
    "aws": "Amazon EC2",
    "google": "Google Compute Engine",
    "azure": "Microsoft Azure",
    "alibaba": "Alibaba Cloud",
}

_NETWORKS = {
    "credits": "Network: the baseline it has always, and the burst while there is credit.",
    "limit": "Network: the most the provider lets through, which it does not guarantee.",
    "range": "Network: judgements; what lies between the two is not known.",
}


def _instances() -> Iterator[str]:
    rows, known = list_instances(), catalogue_families()
    yield "## Instances\n"
    yield (
        f"{len(rows)} instances. A row is in the table of its provider in `hwprofiles/instances/`, "
        "what a family has in common in `families.yaml`; [how to change them](add-a-host.md). "
        "Bandwidths are in Gbit/s of each direction, prices on demand with Linux. What could not "
        "be found is empty.\n"
    )
    yield _SECOND_READING
    for provider, title in _PROVIDERS.items():
        yield f"### {title}\n"
        for name, family in known.families.items():
            members = [row for row in rows if row.family == name]
            if family.provider == provider and members:
                yield f"#### {family.title}\n"
                yield (
                    f"Host [{family.host}](#{family.host}). A vCPU is {members[0].vcpu_is} "
                    f"({family.vcpu_source}). {_processors(family)}It runs on "
                    f"{known.hypervisors[members[0].hypervisor or REFERENCE].title}. "
                    f"{_NETWORKS[family.network]} {_priced(members)}"
                    f"{f' {family.note}' if family.note else ''} "
                    f"Sources: {', '.join(family.sources)}.\n"
                )
                yield from _table(
                    ("Instance", "vCPUs", "GiB", "Gbit/s", "burst", "USD/h"),
                    (_instance_cells(row) for row in members),
                )
    yield from _hypervisors(known.hypervisors)
    yield "Sources of instances and hypervisors:\n"
    for key, source in known.sources.items():
        yield f"- **{key}**: {_described(source)}"
    yield ""


def _processors(family: InstanceFamily) -> str:
    """That a provider promises no processor."""
    if not family.processors:
        return ""
    return f"It may have {any_of(family.processors)}; {family.processors[0]} is simulated. "


def _hypervisors(found: Mapping[HypervisorName, Hypervisor]) -> Iterator[str]:
    yield "### Hypervisors\n"
    yield (
        "What the kernel takes on each, over what it takes on AWS's Nitro: a host's times are "
        "multiplied by this where they were not measured on an instance itself. `calls`: system "
        "calls, messages, polls; `waking`: sending to a sleeping thread, and falling asleep; "
        "`wake_latency`: until the sleeper runs. Tickless scales are of a host's own "
        "(`assumed.yaml`) where nothing is said. All of it is assumed.\n"
    )
    yield from _table(
        ("Name", "What it is", "Number", "Times", "Range", "Source", "Why"),
        (
            (
                f"`{name}`",
                hypervisor.title,
                f"`{number}`",
                _number(leaf.value),
                f"{_number(leaf.low)} to {_number(leaf.high)}",
                leaf.source or "",
                leaf.method,
            )
            for name, hypervisor in found.items()
            for number, leaf in hypervisor
            if isinstance(leaf, Quantity) and name != REFERENCE
        ),
    )


def _instance_cells(row: Instance) -> tuple[str, ...]:
    limit = row.network == "limit"
    return (
        row.name,
        str(row.vcpus),
        _number(row.memory_gib),
        f"≤ {_number(row.burst_gbit_per_s)}" if limit else _number(row.baseline_gbit_per_s),
        "" if limit else _number(row.burst_gbit_per_s),
        _number(row.usd_per_hour),
    )


def _priced(rows: Sequence[Instance]) -> str:
    found = sorted({f"{row.region}, {row.priced}" for row in rows if row.priced})
    return f"Prices: {'; '.join(found)}." if found else "No price was found."


def _each_host(hosts: Iterable[HostProfile]) -> Iterator[str]:
    for host in hosts:
        yield f"## {host.id}\n"
        yield f"{host.title}: {host.microarchitecture}, {host.isa}.\n"
        yield from (f"- {note}" for note in host.notes)
        yield ""
        if host.reuse is not None:
            base = host.reuse.origin
            yield (
                f"Numbers that say *as of {base}* are those of [{base}](#{base}): "
                f"{host.reuse.reason}.\n"
            )
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
            yield f"- **{key}**: {_described(source)}"
        yield ""


def _described(source: Source) -> str:
    """A source with where and when it was read, and what was taken."""
    details = [f"read {source.accessed}" if source.accessed else "", source.licence or ""]
    text = ", ".join(filter(None, [_link(source), *details]))
    taken = [
        f"`{dataset}` {', '.join(map(str, points)) or 'none'}"
        for dataset, points in (source.points or {}).items()
    ]
    notes = [source.note or "", f"Points taken: {'; '.join(taken)}" if taken else ""]
    return ". ".join(filter(None, [text, *notes]))


def _kind(leaf: Origin) -> str:
    return leaf.kind if leaf.status == "provisional" else f"{leaf.kind}, {leaf.status}"


def _reason(leaf: Quantity) -> str:
    # Why the other host has a number taken over is said there.
    method = leaf.method.split("; ")[0] if leaf.method.startswith("as of ") else leaf.method
    return "; ".join(filter(None, [f"`{leaf.formula}`" if leaf.formula else "", method]))


def _link(source: Source) -> str:
    return f"[{source.title}]({source.url})" if source.url else f"{source.title} ({source.file})"


def _number(value: float | None) -> str:
    """Up to six significant digits, without an exponent; sizes in bytes stay exact."""
    if value is None:
        return ""
    if value == int(value):
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    return f"{value:.6g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""
