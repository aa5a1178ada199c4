"""What completes a host's profile: another host's numbers, joint fits to datasets, assumptions.

**Assumed** is what hosts don't say of themselves; `assumed.yaml` says why.

**Learned.** `profile.yaml` says what is known of a host by itself. `learned.yaml`, which `make
evidence STUDY=learned-hosts` writes, has the numbers of it that measured loads moved, and what they
say of the work of engines there. The catalogue's host is both together (`with_learned`).

**Reused.** Hosts nobody published latencies for take those of a relative, in wider ranges. A
profile says `reuse: {from: ID, widen: FACTOR, reason: SENTENCE}`, as engine files do. What it gives
itself holds; everything else is that of the other host:

- a time, a rate or the size of what cores share is `assumed`, in a range `widen` times as wide at
  either end;
- a number that follows from others is computed again from those of this file (a latency in cycles
  from its clock), in a range as much wider;
- pages, cache lines, the caches of one core, threads a core, sockets and the network stay as they
  are.

What was found about the other host alone is not taken over: notes, curves, how its measurements
differ and what was captured there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, model_validator

from forecache.sim.errors import InputError

from .files import FieldError, did_you_mean, parse, read_yaml
from .parts import Tls, Variation
from .quantity import Curve, Quantity, Source, evaluate
from .record import Record

if TYPE_CHECKING:
    from .schema import HostProfile


# --- assumed --------------------------------------------------------------------------------------


class _Assumed(Record):
    """The file."""

    softirq_ns: Quantity
    epoll_ctl_syscalls: Quantity
    copy_ns_per_byte: Quantity
    repeat_ipc_ratio: Quantity
    tls: Tls
    scheduling: dict[str, Quantity]
    variation: Variation
    wake_spread: Curve
    peer_curve: Curve
    interruptions: Curve


_FILE = Path(str(resources.files(__package__) / "assumed.yaml"))
_ASSUMED = parse(_Assumed, read_yaml(_FILE), file=_FILE)

ASSUMED_SOFTIRQ_NS = _ASSUMED.softirq_ns
"""What an interrupt takes per packet."""

ASSUMED_COPY_NS_PER_BYTE = _ASSUMED.copy_ns_per_byte
"""What one core takes to copy long blocks out of main memory."""

ASSUMED_REPEAT_IPC_RATIO = _ASSUMED.repeat_ipc_ratio
"""How many times `user_ipc` what repeats within a command retires."""

ASSUMED_TLS = _ASSUMED.tls
ASSUMED_VARIATION = _ASSUMED.variation

ASSUMED_WAKE_SPREAD = tuple(_ASSUMED.wake_spread.points)
"""(share, factor) pairs: of wake-ups that take at most so many times their median."""

ASSUMED_INTERRUPTIONS = tuple(_ASSUMED.interruptions.points)
"""(us, interruptions per second and busy core that last longer) pairs, of hosts like any other. No
prediction holds them; the ends of intervals do."""

ASSUMED_PEER_CURVE = tuple(_ASSUMED.peer_curve.points)
"""(connections, factor) pairs: how many times as long calls on sockets take beside a peer."""


def assumed_epoll_ctl(syscall_ns: float) -> Quantity:
    """What adding a connection to an epoll set takes, or taking one out, in ns.

    Parameters
    ----------
    syscall_ns
        The cheapest system call of the host.
    """
    calls = _ASSUMED.epoll_ctl_syscalls
    ends = {end: getattr(calls, end) * syscall_ns for end in ("value", "low", "high")}
    return calls.model_copy(update={**ends, "unit": "ns"})


def assumed_scheduling(cores: int) -> dict[str, Quantity]:
    """What threads that share cores, or sleep for a short time, go by.

    Parameters
    ----------
    cores
        CPUs of the operating system: Linux scales its slice by 1 + log2(min(cores, 8)).
    """
    one = _ASSUMED.scheduling["time_slice_us"]
    scale = min(cores, 8).bit_length()
    ends = {end: getattr(one, end) * scale for end in ("value", "low", "high")}
    return {**_ASSUMED.scheduling, "time_slice_us": one.model_copy(update=ends)}


# --- learned from datasets ------------------------------------------------------------------------


SOURCE = "datasets"
"""Id of the source of learned numbers."""


class LearnedWork(Record):
    """A number of engines' work, in standard errors of what its profile says of it.

    Attributes
    ----------
    mean, error
        Where it most probably lies, and its standard error.
    """

    mean: float
    error: float = Field(ge=0)


class LearnedTogether(Record):
    """What is known together of a host's numbers and of engines' work on it.

    Attributes
    ----------
    discrepancy
        Relative standard error of the model on hosts that were fitted so, from loads left out:
        loads of GET and SET alone.
    commands_discrepancy
        The same of loads with other commands.
    work
        By threading policy and name, `asynchronous.execute_lines`.
    correlation
        Of standard errors of numbers, which are called by their `HostSpeed` field or as under
        `work`; pairs that are left out are not correlated, nor does a pair stand twice.
    """

    discrepancy: float = Field(ge=0)
    commands_discrepancy: float = Field(ge=0)
    work: dict[str, LearnedWork]
    correlation: dict[str, dict[str, float]]

    def of_policy(self, policy: str) -> dict[str, LearnedWork]:
        """By name of work, what engines of a threading policy do."""
        begin = f"{policy}."
        return {k.removeprefix(begin): v for k, v in self.work.items() if k.startswith(begin)}

    def correlated(self, first: str, second: str) -> float:
        """Correlation of two numbers."""
        if first == second:
            return 1.0
        own = self.correlation.get(first, {}).get(second)
        return self.correlation.get(second, {}).get(first, 0.0) if own is None else own

    @model_validator(mode="after")
    def _check(self) -> LearnedTogether:
        for first, row in self.correlation.items():
            for second, value in row.items():
                if not -1.0 <= value <= 1.0:
                    raise FieldError(
                        f"correlation.{first}.{second}", found=value, valid="from -1 to 1"
                    )
        return self


class Learned(Record):
    """The file."""

    source: Source
    leaves: dict[str, Quantity]
    """By path in the profile, such as `kernel.tcp_send_ns`."""
    posterior: LearnedTogether


def learned_points(host: HostProfile) -> Mapping[str, Sequence[int]]:
    """Points by dataset that a host was fitted to; none for one that was not."""
    source = host.sources.get(SOURCE)
    return {} if source is None or source.points is None else source.points


def with_learned(data: Mapping[str, Any], learned: Learned) -> dict[str, Any]:
    """The contents of a profile with the numbers that were learned in their places."""
    merged: dict[str, Any] = _copied(data)
    merged["sources"] = {**merged["sources"], SOURCE: learned.source.model_dump(exclude_none=True)}
    merged["posterior"] = learned.posterior.model_dump()
    for path, leaf in learned.leaves.items():
        *groups, name = path.split(".")
        place: Any = merged
        for group in groups:
            found = place[group] if isinstance(place, dict) else _named(place, group)
            place = found
        place[name] = leaf.model_dump()
    return merged


def _named(caches: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(each for each in caches if each["name"] == name)


def _copied(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(value) for value in data] if isinstance(data, list) else data


# --- reused of another host -----------------------------------------------------------------------


Data = Mapping[str, Any]
LeafPath = tuple[str, ...]

AS_IT_IS = (
    *("tlb.page_bytes", "topology.threads_per_core", "topology.sockets", "network.", "memory_gib"),
    *("line_bytes", "L1.size_bytes", "L2.size_bytes", "L1.shared_by_cores", "L2.shared_by_cores"),
)
"""Beginnings and ends of the paths of leaves that relatives share."""

OF_ONE_HOST = (
    *("id", "title", "notes", "sources", "reuse", "instance", "captured", "raw", "variation"),
    *("latency_curve", "walk_curve", "interruptions", "wake_curve"),
    *("peer_curve", "recv_curve", "send_curve"),
    *("l3_fills_per_us", "price_usd_per_hour"),
)


class ReusedHost(Record):
    """Whose numbers a profile took over, and why; without `widen` it is only a record."""

    model_config = ConfigDict(serialize_by_alias=True)

    origin: str = Field(alias="from")
    reason: str = Field(min_length=1)


class _Reuse(ReusedHost):
    """Whose numbers a profile takes over, and by what factor their ranges are wider."""

    widen: float = Field(ge=1, le=100)


def reuses(data: Data) -> bool:
    """Whether a profile's contents leave numbers to another host."""
    reuse = data.get("reuse")
    return isinstance(reuse, Mapping) and "widen" in reuse


def complete(
    data: Data, *, file: str, load: Callable[[str], HostProfile], known: Collection[str]
) -> Data:
    """The contents of a profile with what it leaves to another host.

    Parameters
    ----------
    load
        Gives a host of the catalogue by its id.
    known
        Ids of the catalogue.

    Raises
    ------
    InputError
        `reuse` is not as it should be, or names no host or the file's own; or one of the file's
        numbers or the name of a cache is not as it should be.
    """
    reuse = parse(_Reuse, data["reuse"], file=file, at="reuse")
    if reuse.origin not in known or reuse.origin == data.get("id"):
        others = [name for name in known if name != data.get("id")]
        raise InputError(
            f"{file}: field 'reuse.from': found {reuse.origin!r}; valid is another host of the "
            f"catalogue: {did_you_mean(reuse.origin, others).removeprefix('valid are ')}"
        )
    base = load(reuse.origin)
    taken = base.model_dump(mode="json", exclude_none=True, exclude=set(OF_ONE_HOST))
    taken["dram"].pop("loaded_latency", None)
    own = dict(_leaves(data))
    for path, leaf in own.items():
        parse(Quantity, leaf, file=file, at=".".join(path))
    _check_caches(data, names=[cache.name for cache in base.caches], file=file)
    merged = _overlaid(taken, data)
    values = {".".join(path): _best(leaf) for path, leaf in _leaves(merged)}
    for path, leaf in _leaves(merged):
        if path not in own:
            _widen(".".join(path), leaf, reuse=reuse, values=values, file=file)
    used = {leaf.get("source") for _, leaf in _leaves(merged)}
    text = " ".join(str(leaf.get("method", "")) for _, leaf in _leaves(merged))
    sources = {
        name: source.model_dump(mode="json", exclude_none=True)
        for name, source in base.sources.items()
        if name in used or name in text
    }
    named = data.get("sources") or {}
    return {
        **merged,
        "sources": {**sources, **named} if isinstance(named, Mapping) else named,
        "reuse": {"from": reuse.origin, "reason": reuse.reason},
    }


def _check_caches(data: Data, *, names: Collection[str], file: str) -> None:
    """That each cache of a file is one of the other host's."""
    caches = data.get("caches")
    for index, cache in enumerate(caches if isinstance(caches, list) else []):
        found = cache.get("name") if isinstance(cache, dict) else cache
        if found not in names:
            raise InputError(
                f"{file}: field 'caches[{index}].name': found {found!r}; valid are those of the "
                f"other host: {', '.join(names)}."
            )


def _widen(
    path: str, leaf: dict[str, Any], *, reuse: _Reuse, values: dict[str, float], file: str
) -> None:
    """Make a leaf of the other host one of this host, in its place."""
    if path.startswith(AS_IT_IS) or path.endswith(AS_IT_IS):
        return
    before = _best(leaf)
    low, high = leaf.get("low") or before, leaf.get("high") or before
    now = before
    if leaf.get("formula") is not None:
        try:
            now = evaluate(leaf["formula"], values)
        except ValueError as error:
            raise InputError(f"{file}: field {path!r}, as of {reuse.origin}: {error}.") from None
        values[path] = now
        leaf["value"] = float(f"{now:.6g}")
    else:
        leaf["kind"] = "assumed"
    leaf["low"] = float(f"{low * now / before / reuse.widen:.4g}")
    leaf["high"] = float(f"{high * now / before * reuse.widen:.4g}")
    leaf.pop("status", None)
    how = f"as of {reuse.origin}, in a range {reuse.widen:g} times as wide"
    leaf["method"] = f"{how}; {leaf['method']}" if leaf.get("method") else how


def _best(leaf: Data) -> float:
    value = leaf.get("value")
    if value is None:
        return float((leaf["low"] * leaf["high"]) ** 0.5)
    return float(value)


def _overlaid(base: Data, own: Data) -> dict[str, Any]:
    """A file's fields over those of another, leaf by leaf; caches by their name."""
    merged = dict(base)
    for name, entry in own.items():
        below = base.get(name)
        if name == "caches" and isinstance(entry, list) and isinstance(below, list):
            by_name = {cache.get("name"): cache for cache in entry if isinstance(cache, dict)}
            merged[name] = [_overlaid(cache, by_name.get(cache["name"], {})) for cache in below]
        elif isinstance(entry, dict) and isinstance(below, dict) and "unit" not in below:
            merged[name] = _overlaid(below, entry)
        else:
            merged[name] = entry
    return merged


def _leaves(part: Any, path: LeafPath = ()) -> Iterator[tuple[LeafPath, dict[str, Any]]]:
    """Every number of a profile's contents with its path, such as `caches.L2.latency_ns`."""
    if isinstance(part, dict):
        if "unit" in part and "kind" in part:
            yield path, part
            return
        for name, entry in part.items():
            if name not in ("sources", "reuse", "raw", "captured"):
                yield from _leaves(entry, (*path, str(name)))
    elif isinstance(part, list):
        for entry in part:
            if isinstance(entry, dict) and "name" in entry:
                yield from _leaves(entry, (*path, str(entry["name"])))
