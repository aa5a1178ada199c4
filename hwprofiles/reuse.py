"""Hosts nobody published latencies for: they take those of a relative, in wider ranges.

A profile says `reuse: {from: ID, widen: FACTOR, reason: SENTENCE}`, as engine files do. What it
gives itself holds; everything else is that of the other host:

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

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from forecache.sim.errors import InputError

from .files import did_you_mean, parse
from .quantity import Quantity, evaluate
from .record import Record

if TYPE_CHECKING:
    from .schema import HostProfile

Data = Mapping[str, Any]
Path = tuple[str, ...]

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


class _File(BaseModel):
    """The one field of a profile that completion has to understand."""

    reuse: _Reuse


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
    reuse = parse(_File, {"reuse": data["reuse"]}, file=file).reuse
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


def _leaves(part: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
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
