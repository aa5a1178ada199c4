"""Finding a host: by catalogue id, by cloud instance, or in a file."""

import math
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

from forecache.sim.errors import InputError
from forecache.sim.words import any_of

from .completion import Learned, complete, reuses, with_learned
from .files import as_written, did_you_mean, parse, read_yaml
from .instances import (
    REFERENCE,
    SHARE_OF_LIMIT,
    Instance,
    OwnInstance,
    catalogue_families,
    families,
    instance_in,
    list_instances,
)
from .named_files import names_file, read_with_files
from .parts import Kernel, Topology
from .quantity import Quantity, Source
from .schema import SOCKET_CALLS, HostProfile

HOST_FOLDER = Path(__file__).parent / "hosts"


def list_hosts() -> list[HostProfile]:
    """Every host of the catalogue, by id."""
    return [_catalogue_host(host_id) for host_id in _host_ids()]


def load_host(
    name_or_path: str | Path, *, fitted: bool = True, region: str | None = None
) -> HostProfile:
    """The profile of a host.

    Parameters
    ----------
    name_or_path
        A catalogue host (`graviton3`), an instance (`c7g.4xlarge`), both (`graviton3-c7g.4xlarge`),
        or a file, recognised by its ending `.yaml` or `.yml` or a folder in its name: a profile, or
        an instance of one's own (`OwnInstance`), which has `vcpus`.
    fitted
        Whether a host of the catalogue is as it was fitted to datasets, or as it was known before.
    region
        Whose price an instance has; that of its provider's table without it. A file has its own.

    Raises
    ------
    InputError
        Nothing has that name (with the nearest names), the instance runs on another host, its
        network or its price in that region is not known, or the file is not a profile.
    """
    name = str(name_or_path)
    if region is not None and not names_file(name):
        instance_there = _instances().get(load_host(name).instance or "")
        if instance_there is None:
            raise InputError(
                f"field 'region': found {region!r} with the host {name!r}, which has no price; "
                "valid is an instance of `forecache catalog`."
            )
        return _on_instance(instance_in(instance_there, region), fitted=fitted)
    if isinstance(name_or_path, Path) or names_file(name):
        return _from_file(name)
    if name in _host_ids():
        return _catalogue_host(name, fitted=fitted)
    instances = _instances()
    if name in instances:
        return _on_instance(instances[name], fitted=fitted)
    host_id = next((known for known in _host_ids() if name.startswith(f"{known}-")), None)
    instance_name = name.removeprefix(f"{host_id}-")
    if host_id is not None and instance_name in instances:
        instance = instances[instance_name]
        if instance.host_id != host_id:
            raise InputError(
                f"host {name!r}: {instance_name} runs on {instance.host_id}, not {host_id}; "
                f"valid is {instance.host_id}-{instance_name} or {instance_name}."
            )
        return _on_instance(instance, fitted=fitted)
    if Path(name).is_file():
        raise InputError(
            f"host {name!r}: found a file of this name, but the path of a profile ends in .yaml or "
            f"has a folder in it; valid is ./{name}."
        )
    if (node := name.removeprefix("cache.")) != name and node in instances:
        raise InputError(f"host {name!r}: it is a node of ElastiCache; valid is {node}.")
    known = [*_host_ids(), *instances]
    if host_id is not None:
        known = [f"{row.host_id}-{row.name}" for row in instances.values()]
    raise InputError(
        f"host {name!r}: no host, instance or profile file has this name; "
        + did_you_mean(name, known, listed_by="`forecache catalog`")
    )


def _from_file(path: str) -> HostProfile:
    """The host of a profile, or the instance that a file describes on its host."""
    data = read_with_files(path)
    if "vcpus" not in data:
        return parse(HostProfile, _completed(data, file=path), file=path)
    own = parse(OwnInstance, as_written(OwnInstance, data), file=path)
    host = load_host(own.host)
    if host.instance is not None:
        raise InputError(
            f"{path}: field 'host': found the instance {own.host!r}; valid is a host, such as "
            f"{', '.join(_host_ids())}, or the path of a profile."
        )
    threads_per_core = round(host.topology.threads_per_core.best)
    return _on_instance(own.on(host.id, threads_per_core), host=host, file=path)


def _completed(data: Mapping[str, object], *, file: str | Path) -> Mapping[str, object]:
    """A profile's contents with what it takes over from a host of the catalogue."""
    if not reuses(data):
        return data
    # As it was known before it learned: what was fitted together holds on that host alone.
    load = partial(_catalogue_host, fitted=False)
    return complete(data, file=str(file), load=load, known=_host_ids())


@lru_cache(maxsize=1)
def _host_ids() -> tuple[str, ...]:
    return tuple(sorted(file.parent.name for file in HOST_FOLDER.glob("*/profile.yaml")))


@lru_cache(maxsize=1)
def _instances() -> Mapping[str, Instance]:
    return {instance.name: instance for instance in list_instances()}


@lru_cache(maxsize=64)
def _catalogue_host(host_id: str, *, fitted: bool = True) -> HostProfile:
    file = HOST_FOLDER / host_id / "profile.yaml"
    data, beside = _completed(read_yaml(file), file=file), file.with_name("learned.yaml")
    if fitted and beside.exists():
        data = with_learned(data, parse(Learned, read_yaml(beside), file=beside))
    return parse(HostProfile, data, file=file)


ASSUMED_SIBLING = Quantity(
    value=0.63,
    unit="ratio",
    kind="assumed",
    low=0.5,
    high=0.8,
    method="not measured on this processor. Published: 0.63 of vCPUs of c6i that compile "
    "(aws-graviton-getting-started, system-load-and-compute-headroom.md), 0.65 to 0.78 of an HTTP "
    "server on 14 Intel cores (gist.github.com/sebastienros/f926ca88285a3611ad76ba61b1215804)",
)
"""Of an instance with hyperthreads on a host whose profile knows none."""


def _on_instance(
    instance: Instance,
    *,
    host: HostProfile | None = None,
    file: str | None = None,
    fitted: bool = True,
) -> HostProfile:
    """A host as a tenant of one instance sees it.

    Parameters
    ----------
    host
        The one of the catalogue, where nothing is given.
    file
        That describes the instance; the catalogue does, where nothing is given.
    fitted
        As in `load_host`.
    """
    host = host or _catalogue_host(instance.host_id, fitted=fitted)
    family = families().get(instance.family) if file is None else None
    host_cores = host.topology.cores.best * host.topology.sockets.best
    share = min(1.0, instance.cores / host_cores)
    caches = [
        cache.model_copy(update={"size_bytes": _shared(cache.size_bytes, share)})
        if cache.name == "L3"
        else cache
        for cache in host.caches
    ]
    bandwidth = _shared(host.dram.peak_bandwidth_gb_per_s, share)
    notes = [*host.notes, f"A vCPU of {instance.name} is {instance.vcpu_is}."]
    caveats = [family.note] if family is not None and family.note else []
    notes += caveats
    if instance.cores > host_cores:
        notes.append(
            f"{instance.name} has {instance.cores} cores, more than the {host_cores:.0f} of this "
            "profile: what lies between its sockets is not modelled."
        )
    kernel = _instance_kernel(instance, host)
    if kernel != host.kernel:
        caveats = [*caveats, _hypervisor_caveat(instance)]
    elif host.hypervisor not in (None, REFERENCE, instance.hypervisor):
        of = catalogue_families().hypervisors[host.hypervisor]
        caveats = [*caveats, f"the times of the kernel are those of a guest of {of.title}"]
    processors = family.processors if family is not None else []
    called = host.title
    if processors:
        called = f"{any_of(processors)}; simulated: {processors[0]}"
    changes: dict[str, object] = {
        "id": f"{host.id}-{instance.name}",
        "title": f"{instance.name} ({called})",
        "instance": instance.name,
        "provider": instance.provider,
        "hypervisor": host.hypervisor or instance.hypervisor,
        "caveats": caveats,
        "processors": processors,
        "notes": notes,
        "sources": {**host.sources, **_instance_sources(instance, file=file)},
        "topology": _instance_topology(instance, host, catalogued=file is None),
        "caches": caches,
        "dram": host.dram.model_copy(update={"peak_bandwidth_gb_per_s": bandwidth}),
        "network": host.network.model_copy(update=_instance_network(instance)),
        "kernel": kernel,
        "memory_gib": Quantity(
            value=instance.memory_gib, unit="GiB", kind="published", source="instance"
        ),
        "price_usd_per_hour": None,
    }
    if instance.usd_per_hour is not None:
        where = ", ".join(filter(None, ["on demand", instance.region]))
        read = f", read {instance.priced}" if instance.priced else ""
        changes["price_usd_per_hour"] = Quantity(
            value=instance.usd_per_hour,
            unit="USD/h",
            kind="published",
            source="instance",
            method=where + read,
        )
    return host.model_copy(update=changes)


def _instance_sources(instance: Instance, *, file: str | None) -> dict[str, Source]:
    if file is not None:
        return {"instance": Source(title=f"{instance.name}, as its file says", file=file)}
    known, family = catalogue_families().sources, families()[instance.family]
    dates = [known[source].accessed or "" for source in family.sources]
    return {
        "instance": Source(
            title=f"Catalogue entry of {instance.family}: {family.title}",
            file=f"hwprofiles/instances/{instance.provider}.csv",
            accessed=max(dates),
            note="its own sources are listed in families.yaml beside it",
        ),
        "vcpu": known[family.vcpu_source],
    }


def _instance_topology(instance: Instance, host: HostProfile, *, catalogued: bool) -> Topology:
    cores = Quantity(
        value=float(instance.cores),
        unit="cores",
        kind="published",
        source="instance",
        method=f"{instance.name} has {instance.vcpus} vCPUs, each {instance.vcpu_is}",
    )
    threads = Quantity(
        value=float(instance.threads_per_core),
        unit="threads",
        kind="published",
        source="vcpu" if catalogued else "instance",
    )
    changes: dict[str, Quantity | None] = {"cores": cores, "threads_per_core": threads}
    if instance.threads_per_core != round(host.topology.threads_per_core.best):
        changes["busy_sibling_speed"] = ASSUMED_SIBLING if instance.threads_per_core == 2 else None
    return host.topology.model_copy(update=dict(changes))


def _instance_network(instance: Instance) -> dict[str, Quantity | None]:
    """What an instance has of its host's network: a baseline, and where it bursts, how far."""
    steady, burst = instance.steady_gbit_per_s, instance.burst_gbit_per_s
    if steady is None:
        column = "burst_gbit_per_s" if instance.network == "limit" else "baseline_gbit_per_s"
        raise InputError(
            f"instance {instance.name}: its {column} is not known; valid is an instance with one, "
            "or a file of your own that says it (docs/add-a-host.md)."
        )
    found: dict[str, Quantity | None] = {
        "bandwidth_gbit_per_s": _steady(instance, steady),
        "packets_per_s": instance.packets_per_s,
    }
    own = catalogue_families().networks.get(instance.provider) if instance.provider else None
    if own is not None:
        found |= {"mtu_bytes": own.mtu_bytes, "flow_gbit_per_s": own.flow_gbit_per_s}
    if instance.network == "credits" and burst is not None and burst > steady:
        found["burst_gbit_per_s"] = Quantity(
            value=burst, unit="Gbit/s", kind="published", source="instance"
        )
        found["credit_gbit"] = instance.network_credit_gbit
    return found


_WAKING = ("wake_send_ns", "block_ns")
_CALLS = ("syscall_ns", *SOCKET_CALLS)


def _instance_kernel(instance: Instance, host: HostProfile) -> Kernel:
    """What calls and waking take on an instance: longer where nobody measured a guest of its kind.

    What was measured on the host itself stays, and so do times that already are those of another
    hypervisor than `REFERENCE`, which the factors are not over.
    """
    if instance.hypervisor in (None, REFERENCE) or host.hypervisor not in (None, REFERENCE):
        return host.kernel
    hypervisor = catalogue_families().hypervisors[instance.hypervisor]
    factors = {
        **dict.fromkeys(_CALLS, hypervisor.calls),
        **dict.fromkeys(_WAKING, hypervisor.waking),
        "wake_latency_ns": hypervisor.wake_latency,
    }
    known = {name: getattr(host.kernel, name) for name in factors}
    changed = {
        name: _longer(leaf, factors[name])
        for name, leaf in known.items()
        if leaf is not None and leaf.kind != "measured"
    }
    for name in ("tickless_block_scale", "tickless_latency_scale"):
        changed[name] = getattr(host.kernel, name) or getattr(hypervisor, name)
    return host.kernel.model_copy(update=changed)


def _hypervisor_caveat(instance: Instance) -> str:
    """By whose factors the times of an instance's kernel are taken."""
    hypervisor = catalogue_families().hypervisors[instance.hypervisor or REFERENCE]
    calls, waking = (
        f"{times.best:g} times ({times.low:g} to {times.high:g})"
        for times in (hypervisor.calls, hypervisor.waking)
    )
    return (
        f"{instance.name} runs on {hypervisor.title}: calls of the kernel are assumed to take "
        f"{calls} as long as on AWS's Nitro, and wake-ups {waking}; `forecache profile` measures "
        "both there"
    )


def _longer(leaf: Quantity, factor: Quantity) -> Quantity:
    """A time multiplied by a factor; both have ranges, which say nothing of each other."""
    value, times = leaf.best, factor.best
    shorter, longer = (
        math.hypot(math.log(end / value) if end else 0.0, math.log(bound / times))
        for end, bound in ((leaf.low, factor.low), (leaf.high, factor.high))
        if bound is not None
    )
    return Quantity(
        value=value * times,
        unit=leaf.unit,
        kind="assumed",
        low=value * times * math.exp(-shorter),
        high=value * times * math.exp(longer),
        method=f"{value:,.4g} on a guest of AWS ({leaf.kind}), {times:g} times: {factor.method}",
    )


def _steady(instance: Instance, gbit_per_s: float) -> Quantity:
    """What a load that lasts has of the network, with what is not known of it as its range."""
    if instance.network == "credits":
        return Quantity(
            value=gbit_per_s,
            unit="Gbit/s",
            kind="published",
            source="instance",
            low=gbit_per_s,
            high=gbit_per_s,
            method="the baseline, which it has always",
        )
    low, high, method = gbit_per_s, instance.burst_gbit_per_s or gbit_per_s, "a judgement"
    if instance.network == "limit":
        low = SHARE_OF_LIMIT * gbit_per_s
        method = "the most the provider lets through; it guarantees nothing: at least half of it"
    return Quantity(
        value=gbit_per_s,
        unit="Gbit/s",
        kind="assumed",
        source="instance",
        low=low,
        high=high,
        method=method,
    )


def _shared(quantity: Quantity, share: float) -> Quantity:
    """A resource all tenants of a host share: at worst the tenant's share of cores is left."""
    if share >= 1.0:
        return quantity
    low = share * (quantity.best if quantity.low is None else quantity.low)
    high = quantity.best if quantity.high is None else quantity.high
    reason = f"shared with other tenants: from {share:.3g} of it (share of the cores) to all of it"
    return quantity.model_copy(
        update={
            "low": low,
            "high": high,
            "method": f"{quantity.method}; {reason}" if quantity.method else reason,
        }
    )
