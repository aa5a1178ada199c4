"""Scenarios: which kinds there are, and the one reader of them.

A scenario is given as the path of a file or as a mapping of the same shape. From Python, numbers
and lists may be those of NumPy, pandas, polars or Arrow; they become here what a YAML file would
have held, so that nothing below has to know of them.

Packages below those of a kind check it too, so a row of `KINDS` names schema and function as
`module:name` and they are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from forecache.hwprofiles.files import as_written, did_you_mean, is_sweep
from forecache.hwprofiles.named_files import read_with_files
from forecache.sim.errors import InputError
from forecache.sim.words import any_of

NODE = "node"
"""One node in a steady state: what a file without `kind` is about."""

_MODELS = "forecache.models"


@dataclass(frozen=True)
class Kind:
    """A kind of scenario."""

    verb: str
    """Of the command line. A node's scenario has other verbs besides."""
    schema_at: str
    """Module and name of its schema, which has `name`, and unless it is a node's `kind`."""
    run_at: str | None = None
    """Module and name of what simulates it over time, if anything does: takes a scenario of that
    schema, a seed and something to report steps to, answers with a `Run` and raises InputError for
    what the schema can't see. A function of a module, for executors of processes."""

    @property
    def schema(self) -> type[BaseModel]:
        """Fields of its file."""
        found: type[BaseModel] = _named(self.schema_at)
        return found

    @property
    def run(self) -> Callable[..., Any]:
        """What simulates it; only of a kind that has one."""
        assert self.run_at is not None
        found: Callable[..., Any] = _named(self.run_at)
        return found


KINDS: dict[str, Kind] = {
    NODE: Kind("simulate", f"{_MODELS}.scenario.schema:Scenario"),
    "cluster": Kind(
        "simulate",
        f"{_MODELS}.over_time.cluster.schema:ClusterScenario",
        f"{_MODELS}.over_time.cluster.run:run_cluster",
    ),
    "node_life": Kind(
        "simulate",
        f"{_MODELS}.over_time.node_life.schema:NodeLife",
        f"{_MODELS}.over_time.node_life.run:run_node_life",
    ),
    "overcommit": Kind(
        "simulate",
        f"{_MODELS}.over_time.overcommit.schema:OvercommitScenario",
        f"{_MODELS}.over_time.overcommit.run:run_overcommit",
    ),
    "serverless": Kind(
        "simulate",
        f"{_MODELS}.over_time.serverless.schema:ServerlessScenario",
        f"{_MODELS}.over_time.serverless.run:run_serverless",
    ),
    "large_commands": Kind(
        "simulate",
        f"{_MODELS}.over_time.large_commands.scenario:LargeCommands",
        f"{_MODELS}.over_time.large_commands.simulate:simulate_large_commands",
    ),
    "memory": Kind("memory", f"{_MODELS}.footprint.schema:MemoryScenario"),
    "cost": Kind("cost", f"{_MODELS}.cost.schema:CostScenario"),
    "plan": Kind("plan", f"{_MODELS}.plan.schema:PlanScenario"),
}
"""By the word that stands in the file."""


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def check_kind(
    data: Mapping[str, Any], *, file: str, valid: Sequence[str], guessed: bool = False
) -> str:
    """The kind of a scenario.

    Parameters
    ----------
    valid
        Kinds that the caller can answer.
    guessed
        Whether the kind was not in the file and follows from its fields.

    Raises
    ------
    InputError
        It is none of them; the message says which verb is for it.
    """
    kind = kind_of(data)
    if isinstance(kind, str) and kind in valid:
        return kind
    found = f"{file}: field 'kind': found {kind!r}"
    words = " or ".join(f"{name} (or no kind)" if name == NODE else name for name in valid)
    if guessed or "kind" not in data:
        found = f"{file}: found the fields of kind {kind}"
        words = f"a file of kind {any_of(valid)}"
    if isinstance(kind, str) and kind in KINDS:
        raise InputError(
            f"{found}; valid here is {words}; `forecache {KINDS[kind].verb}` is for {kind}."
        )
    if not isinstance(kind, str):
        raise InputError(f"{found}; valid is {_all_kinds()}.")
    guess = f"{hint} Valid is" if (hint := did_you_mean(kind, KINDS))[-1] == "?" else "valid is"
    raise InputError(f"{found}; {guess} {_all_kinds()}.")


def kind_of(data: Mapping[str, Any]) -> Any:
    """What stands in `kind`; without it the kind that has most of the fields and misses none.

    Of several a node goes first, then kinds whose `kind` has a default. No other schema is looked
    at, and none imported, where a node has all fields.
    """
    if "kind" in data:
        return data["kind"]
    if data.keys() <= KINDS[NODE].schema.model_fields.keys():
        return NODE
    fields = {name: kind.schema.model_fields for name, kind in KINDS.items()}
    whole = [
        name
        for name in sorted(fields, key=lambda name: fields[name]["kind"].is_required())
        if all(f in data or f == "kind" for f, of in fields[name].items() if of.is_required())
    ]
    return max(whole, key=lambda name: len(data.keys() & fields[name].keys()), default=NODE)


def _all_kinds() -> str:
    verbs: dict[str, list[str]] = {}
    for name, kind in KINDS.items():
        verbs.setdefault(kind.verb, []).append(name)
    return "; ".join(f"{', '.join(kinds)} (`forecache {verb}`)" for verb, kinds in verbs.items())


# --- reading one ----------------------------------------------------------------------------------


_AUTOMATIC = ("automatic", "auto")
"""Words for all numbers of threads that fit the cores."""
_LONGEST_RANGE = 100_000
"""Numbers of a `range` outside a sweep that are written out as a list."""


@dataclass(frozen=True)
class ScenarioFile:
    """A scenario that was read; whoever is given one does not read it again."""

    name: str
    """What messages call it: the path, or `scenario` of a mapping."""
    data: dict[str, Any]
    """Its fields, in which a field may be a sweep; numbers are in the units of their fields."""
    kind_is_guessed: bool = False
    """Whether the file had no kind: that among its fields is the one that they belong to."""
    all_threads: bool = False
    """Whether a node's `io_threads` is automatic, which is then not among the fields."""

    def kind(self, valid: Sequence[str]) -> str:
        """Which of the valid kinds it is of; refuses any other with an `InputError`."""
        return check_kind(self.data, file=self.name, valid=valid, guessed=self.kind_is_guessed)


ScenarioSource = str | Path | Mapping[str, Any] | ScenarioFile


def read_scenario(source: ScenarioSource) -> ScenarioFile:
    """Read a scenario, unless it was read already; see `content_of` and `as_written`."""
    if isinstance(source, ScenarioFile):
        return source
    name = "scenario" if isinstance(source, Mapping) else str(source)
    data = content_of(source)
    kind, guessed = kind_of(data), "kind" not in data
    if isinstance(kind, str) and kind in KINDS:
        data = as_written(KINDS[kind].schema, data)
        if kind != NODE:
            data = {"kind": kind, **data}
        elif data.get("io_threads") in _AUTOMATIC:
            data.pop("io_threads")
            return ScenarioFile(name, data, guessed, all_threads=True)
    return ScenarioFile(name, data, guessed)


_REGION_IN: dict[str, str | None] = {NODE: None, "cost": None, "plan": "choices"}
"""Of kinds with prices by region, the group of fields that says which; None for the top level."""


def in_region(source: ScenarioSource, region: str | None) -> ScenarioSource:
    """A scenario with prices of this region in place of its own; as it is without one."""
    if region is None:
        return source
    given = read_scenario(source)
    where = _REGION_IN[given.kind([*_REGION_IN])]
    there = given.data if where is None else given.data.get(where, {})
    if not isinstance(there, Mapping):
        return given  # its schema says what is wrong with it
    there = {**there, "region": region}
    data = there if where is None else {**given.data, where: there}
    return ScenarioFile(given.name, data)


def content_of(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario, as plain data.

    A `range` in a sweep stays one, since it may be longer than memory.

    Parameters
    ----------
    source
        Path of a file, or its content. Lists may be tuples, ranges, arrays or series, and numbers
        scalars of NumPy. Paths in a file are relative to its folder, those in a mapping to the
        current one.

    Raises
    ------
    InputError
        The file can't be read, or names one that is in the current folder but not in its own.
    """
    if not isinstance(source, Mapping):
        return read_with_files(source)
    return {key: _written_out(value) for key, value in source.items()}


def _written_out(value: Any) -> Any:
    """A value as YAML would hold it; of a type that is not known here, as it is."""
    if isinstance(value, Mapping):
        if is_sweep(value) and isinstance(value["sweep"], range):
            return dict(value)
        return {key: _written_out(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_written_out(item) for item in value]
    if isinstance(value, range):
        return list(value) if len(value) <= _LONGEST_RANGE else value
    # NumPy, pandas and Arrow have the first, polars the second.
    for name in ("tolist", "to_list"):
        method = getattr(value, name, None)
        if callable(method) and not isinstance(value, type):
            return _written_out(method())
    return str(value) if isinstance(value, Path) else value
