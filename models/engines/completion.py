"""Engine files that say only what differs from another profile, completed when they are loaded.

A file names the other profile in one of two fields:

- `variant_of`: everything the file doesn't say holds as it does there, work and covariance too.
- `reuse: {from: ID, widen: FACTOR, reason: SENTENCE}`: rules hold as they do there. A number that
  was observed there is `assumed` here, in a range `widen` times as wide at either end; one that is
  assumed or published there stays as it is. What was found about the other version alone is not
  taken over: notes, covariance and the error of its fit. `commands_from: ID` names another profile
  for the work of commands beyond GET and SET.

Entries of `work`, `commands` and `sources` replace those of the same name one by one;
`commands: {}` means none. A file that holds all of `work` and has no `widen` stands alone, as
`forecache calibrate` writes it; its `reuse: {from, to, reason}` is only a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml
from forecache.hwprofiles.quantity import Quantity
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ..scenario.command_table import later_commands
from .commands import work_of

if TYPE_CHECKING:
    from .profile import EngineProfile

Data = Mapping[str, Any]

OF_ONE_VERSION = (
    *("id", "title", "version", "versions", "taken_as", "variant_of", "notes", "reuse"),
    "generator",
    *("covariance", "host_covariance"),
    *("discrepancy", "discrepancy_points", "memory_discrepancy"),
)
"""Fields that a version never takes over from the one whose work it reuses."""


class TakenOver(Record):
    """`reuse` of a file that takes work over from another profile."""

    origin: str = Field(alias="from")
    commands_from: str | None = None
    to: str | None = None
    widen: float = Field(ge=1, le=100)
    reason: str = Field(min_length=1)


class _File(BaseModel):
    """The one field of a profile that completion has to understand."""

    reuse: TakenOver


@cache
def read_shipped(path: Path) -> Data:
    """A shipped engine file, with the covariances that stand beside it in `covariance/`.

    Files build on each other, so one is asked for several times.
    """
    covariances = path.parent / "covariance" / path.name
    return read_yaml(path) | (read_yaml(covariances) if covariances.is_file() else {})


def check_origins(
    data: Data,
    *,
    file: str,
    numbers: Collection[str],
    path_of: Mapping[str, Path],
    chain: tuple[str, ...] = (),
) -> None:
    """Refuse names of unknown profiles and files that would complete each other.

    Parameters
    ----------
    numbers
        Names that `work` of a file that stands alone holds.
    path_of
        Shipped files by id.
    chain
        Ids of the files that led here, this one last.

    Raises
    ------
    InputError
        With file and field.
    """
    for field, origin in _origins(data, numbers):
        if origin not in path_of:
            raise InputError(
                f"{file}: field '{field}': found {origin!r}; valid is the id of a shipped profile: "
                f"{did_you_mean(origin, path_of).removeprefix('valid are ')}"
            )
        if origin in chain:
            way = " from ".join([*chain[chain.index(origin) :], origin])
            raise InputError(
                f"{file}: field '{field}': found {origin!r}, which makes a cycle ({way}); valid is "
                "a profile that is not completed from this one."
            )
        check_origins(
            read_shipped(path_of[origin]),
            file=f"models/engines/{origin}.yaml",
            numbers=numbers,
            path_of=path_of,
            chain=(*chain, origin),
        )


def complete(
    data: Data, *, file: str, numbers: Collection[str], load: Callable[[str], EngineProfile]
) -> Data:
    """The contents of an engine file with what they leave to another profile.

    Parameters
    ----------
    numbers
        As in `check_origins`.
    load
        Gives a shipped profile by its id, one that `check_origins` lets pass.

    Raises
    ------
    InputError
        `reuse` is not as it should be, or a number is unknown to the other profile.
    """
    version = data.get("version", "")
    if not isinstance(version, str):
        raise InputError(
            f"{file}: field 'version': found {version!r}; valid is a version in quotes, as '7.2'."
        )
    reuse = data.get("reuse")
    varies = _is_variant(data, numbers)
    if _takes_over(reuse):
        if varies:
            raise InputError(
                f"{file}: field 'reuse.widen': found beside variant_of; valid is one of the two: a "
                "variant has the work of its profile as it is."
            )
        return _without_later(_with_reused_work(data, file=file, load=load), own=data)
    if varies:
        base = load(data["variant_of"])
        _refuse_unknown(data, {"work": base, "commands": base}, file=file)
        whole = _overlaid(base.model_dump(mode="json", by_alias=True), data)
        data = _without_later(whole, own=data)
    elif isinstance(reuse, Mapping) and not _holds_all_work(data, numbers):
        raise InputError(
            f"{file}: the field 'reuse.widen' is missing; valid is the factor by which ranges of "
            "reused work are wider, as this file doesn't hold all work itself."
        )
    if isinstance(reuse, Mapping) and "to" not in reuse and "version" in data:
        data = {**data, "reuse": {**reuse, "to": data["version"]}}
    return data


def _without_later(data: Data, *, own: Data) -> Data:
    """Contents of a file of Redis without the work of commands that its version doesn't have.

    Parameters
    ----------
    own
        The file without what it takes over: what it says itself stays.
    """
    if data.get("engine") != "redis" or "version" not in data:
        return data  # without a version it is refused as soon as its fields are read
    came_later = {name for each in later_commands(data["version"]) for name in work_of(each)}
    commands = {
        name: leaf
        for name, leaf in _entries(data, "commands").items()
        if name not in came_later or name in _entries(own, "commands")
    }
    return {**data, "commands": commands}


def _with_reused_work(data: Data, *, file: str, load: Callable[[str], EngineProfile]) -> Data:
    """The contents of a file with rules and work of the profile that `reuse` names."""
    taken = parse(_File, {"reuse": data["reuse"]}, file=file).reuse
    base = load(taken.origin)
    counted = load(taken.commands_from or taken.origin)
    if base.observed is None:
        raise InputError(
            f"{file}: field 'reuse.from': found {base.id!r}, whose work was not observed; valid is "
            "a profile whose work was, or `variant_of` in place of `reuse`."
        )
    _refuse_unknown(data, {"work": base, "commands": counted}, file=file)
    own_sources = _entries(data, "sources")
    source = base.id if base.id in own_sources else None

    def reused(leaves: Mapping[str, Quantity], own: Mapping[str, Any], *, how: str) -> Any:
        return {
            name: reused_leaf(leaf, how=how, widen=taken.widen, source=source)
            for name, leaf in leaves.items()
            if name not in own
        }

    work = reused(base.work, _entries(data, "work"), how=f"as observed of {base.id}")
    commands = {}
    if data.get("commands") != {}:
        build = counted.observed.version if counted.observed is not None else counted.version
        how = f"as counted of {counted.engine}-{build}"
        commands = reused(counted.commands, _entries(data, "commands"), how=how)
    used = {leaf.source for leaf in (*work.values(), *commands.values())}
    sources = {**counted.sources, **base.sources}
    engine = data.get("engine", base.engine)
    observed = base.observed
    if observed.engine is None and base.engine != engine:
        observed = observed.model_copy(update={"engine": base.engine})
    rules = base.model_dump(mode="json", by_alias=True, exclude=set(OF_ONE_VERSION))
    rules |= {
        "observed": observed.model_dump(mode="json", exclude_none=True),
        "sources": {
            name: each.model_dump(mode="json", exclude_none=True)
            for name, each in sources.items()
            if name in used
        },
        "work": _in_order(base.work, work, _entries(data, "work")),
        "commands": _in_order(counted.commands, commands, _entries(data, "commands")),
    }
    record = {
        "from": base.reuse.origin if base.reuse is not None else base.id,
        "to": taken.to if taken.to is not None else data.get("version", ""),
        "reason": taken.reason,
    }
    return {**_overlaid(rules, data), "reuse": record}


def reused_leaf(leaf: Quantity, *, how: str, widen: float, source: str | None) -> Quantity:
    """A number of another version: what was observed there is assumed, in a wider range.

    Parameters
    ----------
    how
        Begins `method`.
    widen
        Factor at either end of the range.
    source
        Source of a number that was observed, where the file lists one for the other profile.
    """
    if leaf.kind in ("assumed", "published", "derived"):
        return leaf
    low, high = (leaf.best if end is None else end for end in (leaf.low, leaf.high))
    return Quantity(
        value=leaf.value,
        unit=leaf.unit,
        kind="assumed",
        source=source,
        low=float(f"{low / widen:.4g}"),
        high=float(f"{high * widen:.4g}"),
        method=how if widen == 1 else f"{how}, in a range {widen:g} times as wide",
    )


def _takes_over(reuse: object) -> bool:
    return isinstance(reuse, Mapping) and "widen" in reuse


def _holds_all_work(data: Data, numbers: Collection[str]) -> bool:
    return set(numbers) <= set(_entries(data, "work"))


def _is_variant(data: Data, numbers: Collection[str]) -> bool:
    """Whether a file leaves its work, or part of it, to the profile it is a variant of."""
    return isinstance(data.get("variant_of"), str) and not _holds_all_work(data, numbers)


def _origins(data: Data, numbers: Collection[str]) -> list[tuple[str, str]]:
    """Fields that name another profile, and its id."""
    found = [("variant_of", data["variant_of"])] if _is_variant(data, numbers) else []
    reuse = data.get("reuse")
    if isinstance(reuse, Mapping) and _takes_over(reuse):
        found += [(f"reuse.{name}", reuse.get(name)) for name in ("from", "commands_from")]
    return [(field, origin) for field, origin in found if isinstance(origin, str)]


def _refuse_unknown(data: Data, bases: Mapping[str, EngineProfile], *, file: str) -> None:
    """Refuse numbers of a file that the profile it builds on doesn't have."""
    for part, base in bases.items():
        known = getattr(base, part)
        unknown = [name for name in _entries(data, part) if known and name not in known]
        if unknown:
            raise InputError(
                f"{file}: field '{part}.{unknown[0]}': found a number that {base.id} doesn't have; "
                f"{did_you_mean(str(unknown[0]), known)}"
            )


def _overlaid(base: Data, own: Data) -> dict[str, Any]:
    """A file's fields over those of another; entries of work, commands and sources one by one."""
    merged = {**base, **own}
    for part in ("work", "commands", "sources"):
        # No commands at all is a statement, no other work or sources is none.
        if _entries(own, part) or (part != "commands" and own.get(part) == {}):
            merged[part] = _in_order(base[part], base[part], own[part])
    return merged


def _in_order(names: Iterable[str], base: Data, own: Data) -> dict[str, Any]:
    """Entries of a file over those of another, in the order of `names`."""
    known = {name: own.get(name, base.get(name)) for name in names if name in own or name in base}
    return {**known, **{name: entry for name, entry in own.items() if name not in known}}


def _entries(data: Data, part: str) -> Mapping[str, Any]:
    """A part of a file that is a mapping by name; empty where it is missing or something else."""
    entries = data.get(part)
    return entries if isinstance(entries, Mapping) else {}
