"""JSON Schema of what each verb prints with `--json`, from the types of its answer.

A field is described by the string below it, or by the section Attributes of its class. A number may
be null where these words say that it can be infinite, NaN or missing: JSON has no word for such.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import (
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np
from pydantic import BaseModel

from forecache import verbs
from forecache.calibration.bundle.bundle import BundleSummary
from forecache.calibration.fit.report import CalibrationReport, FitSummary
from forecache.commands import all_commands
from forecache.models.advice.node_answers import StudyTarget
from forecache.models.cost.sizing import Need
from forecache.models.footprint.limits import Room
from forecache.models.plan.results import PlanSetting
from forecache.models.results.points import LoadPoint
from forecache.models.results.series import Bar, Run, RunPoint, Table
from forecache.sim.plain import IN_PYTHON_ALONE, LEFT_OUT, Result

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PRINTED: Mapping[str, Any] = {
    "observe": BundleSummary,
    "calibrate": CalibrationReport,
}
"""What a verb prints where that is something else than its function returns."""

_NOT_FINITE = re.compile(r"\b(infinite|NaN|missing)\b")
_REF = "#/$defs/{model}"


def schemas() -> dict[str, Schema]:
    """The schema of every verb's result, by verb."""
    return {str(command.name): schema_of(str(command.name)) for command in all_commands()}


@cache
def schema_of(verb: str) -> Schema:
    """What `forecache VERB --json` prints."""
    known = _Definitions()
    answer = known.of(printed(verb))
    text = inspect.cleandoc(getattr(verbs, verb).__doc__ or "").partition("\n")[0]
    return {
        "$schema": DIALECT,
        "title": f"forecache {verb} --json",
        "description": text,
        **answer,
        "$defs": {name: known.found[name] for name in sorted(_named(answer, known.found))},
    }


def _named(schema: Schema, definitions: Mapping[str, Schema]) -> set[str]:
    """Definitions that a schema refers to, and those that these do."""
    found: set[str] = set()
    left = [schema]
    while left:
        for name in re.findall(r'"#/\$defs/(\w+)"', json.dumps(left.pop())):
            if name not in found:
                found.add(name)
                left.append(definitions[name])
    return found


def printed(verb: str) -> Any:
    """The types of what a verb prints: one, or a union of several."""
    if verb in _PRINTED:
        return _PRINTED[verb]
    function = getattr(verbs, verb)
    guarded = _guarded(sys.modules[function.__module__])
    return get_type_hints(function, localns=guarded)["return"]


def types_of(verb: str) -> list[type]:
    """The classes that a verb's answer is made of, in the order in which they are met."""
    known = _Definitions()
    known.of(printed(verb))
    return list(known.classes)


class _Definitions:
    """Schemas of classes, each described once."""

    def __init__(self) -> None:
        self.found: dict[str, Schema] = {}
        self.classes: dict[type, str] = {}

    def of(self, kind: Any, *, finite: bool = True) -> Schema:
        """The schema of a type; with `finite` its numbers are never null."""
        origin, inner = get_origin(kind), get_args(kind)
        if kind is Any or kind is object:
            return {}
        if kind is NoneType:
            return {"type": "null"}
        if kind in _PLAIN:
            return {
                "type": [_PLAIN[kind], "null"] if kind is float and not finite else _PLAIN[kind]
            }
        if origin in (Union, UnionType):
            return _either([self.of(each, finite=finite) for each in inner])
        if origin is Literal:
            return {"enum": list(inner)}
        if origin is np.ndarray or kind is np.ndarray:
            whole = "int" in str(inner)
            return {"type": "array", "items": self.of(int if whole else float, finite=finite)}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(inner[1], finite=finite)}
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"type": "array", "items": self.of(inner[0], finite=finite)}
        return self._class(kind)

    def _class(self, kind: type) -> Schema:
        if kind not in self.classes:
            if kind.__name__ in self.found:
                raise ValueError(f"another name than {kind.__name__}, which two types have")
            self.classes[kind] = kind.__name__
            self.found[kind.__name__] = {}  # of those that refer to themselves
            self.found[kind.__name__] = self._described(kind)
        return {"$ref": _REF.format(model=kind.__name__)}

    def _described(self, kind: type) -> Schema:
        if issubclass(kind, BaseModel):
            return self._model(kind)
        properties, required = self._fields(kind)
        own = next((c for c in kind.__mro__ if "to_dict" in vars(c)), None)
        if own not in (None, Result):
            if own not in _SHAPES:
                raise ValueError(f"a shape of {own.__name__}.to_dict in {Path(__file__).name}")
            properties, required = _SHAPES[own](self, properties, required)
        return {
            "type": "object",
            "description": _prose(kind),
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def _fields(self, kind: type) -> tuple[dict[str, Schema], list[str]]:
        """Fields of a dataclass or of a TypedDict, and which of them are always there."""
        hints = get_type_hints(kind, localns=_guarded(sys.modules[kind.__module__]))
        if is_typeddict(kind):
            names = list(hints)
            always: frozenset[str] = getattr(kind, "__required_keys__")  # noqa: B009
            required = sorted(always, key=names.index)
        elif is_dataclass(kind):
            printed = [each for each in fields(kind) if IN_PYTHON_ALONE not in each.metadata]
            names = [each.name for each in printed]
            required = [each.name for each in printed if LEFT_OUT not in each.metadata]
        else:
            raise ValueError(f"a dataclass or a TypedDict for {kind}")
        words = meanings(kind)
        properties = {}
        for name in names:
            finite = not _NOT_FINITE.search(f"{words.get(name, '')} {_prose(kind)}")
            properties[name] = _with(self.of(hints[name], finite=finite), words.get(name))
        return properties, required

    def _model(self, kind: type[BaseModel]) -> Schema:
        """What a schema of pydantic says, with the meanings of its fields."""
        whole = kind.model_json_schema(mode="serialization", ref_template=_REF)
        inner: Schema = whole.pop("$defs", {})
        for model in _models(kind):
            described = whole if model is kind else inner.get(model.__name__)
            if described is not None:
                described["description"] = _prose(model)
                for name, meaning in meanings(model).items():
                    if name in described.get("properties", {}):
                        described["properties"][name]["description"] = meaning
            if model is not kind:
                self.classes.setdefault(model, model.__name__)
        self.found |= {name: schema for name, schema in inner.items() if name != kind.__name__}
        return whole


_PLAIN = {str: "string", Path: "string", bool: "boolean", int: "integer", float: "number"}


def _either(choices: Sequence[Schema]) -> Schema:
    """One of several schemas, in short where they are plain types."""
    plain = [each for each in choices if set(each) == {"type"}]
    others = [each for each in choices if set(each) != {"type"}]
    names: list[str] = []
    for each in plain:
        kinds = each["type"] if isinstance(each["type"], list) else [each["type"]]
        names += [kind for kind in kinds if kind not in names]
    if names:
        others.append({"type": names if len(names) > 1 else names[0]})
    return others[0] if len(others) == 1 else {"anyOf": others}


def _with(schema: Schema, meaning: str | None) -> Schema:
    return {**schema, "description": meaning} if meaning else schema


# --- what to_dict changes ------------------------------------------------------------------------

Shape = tuple[dict[str, Schema], list[str]]


def _same(_known: _Definitions, properties: dict[str, Schema], required: list[str]) -> Shape:
    return properties, required


def _plus(name: str, kind: type, meaning: str) -> Callable[..., Shape]:
    """One more field."""

    def shape(known: _Definitions, properties: dict[str, Schema], required: list[str]) -> Shape:
        return {name: _with(known.of(kind), meaning), **properties}, [name, *required]

    return shape


def _table(_known: _Definitions, properties: dict[str, Schema], required: list[str]) -> Shape:
    column = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "unit": {"type": "string"}},
        "required": ["name", "unit"],
        "additionalProperties": False,
    }
    described = _with({"type": "array", "items": column}, "Name and unit of each.")
    return {**properties, "columns": described}, required


def _run(_known: _Definitions, properties: dict[str, Schema], _: list[str]) -> Shape:
    left = {name: each for name, each in properties.items() if name not in ("times_s", "series")}
    series = {
        "type": "object",
        "description": "Quantities over time.",
        "properties": {"time_s": properties["times_s"], "columns": properties["series"]},
        "required": ["time_s", "columns"],
        "additionalProperties": False,
    }
    return {"series": series, **left}, ["series", *left]


def _run_point(known: _Definitions, properties: dict[str, Schema], _: list[str]) -> Shape:
    known.of(Run)
    run = known.found[Run.__name__]
    given = {"given": properties["given"]}
    return {**given, **run["properties"]}, ["given", *run["required"]]


def _room(_known: _Definitions, _: dict[str, Schema], __: list[str]) -> Shape:
    number, text = {"type": "number"}, {"type": "string"}
    properties: dict[str, Schema] = {
        "fits": {"type": "boolean"},
        "used_bytes": number,
        "needed_bytes": number,
        "usable_bytes": number,
        "memory_bytes": number,
        "limit": text,
        "shortfall": {"type": ["string", "null"]},
    }
    return properties, list(properties)


def _fit_summary(_known: _Definitions, properties: dict[str, Schema], _: list[str]) -> Shape:
    errors = properties["by_quantity"]["additionalProperties"]["additionalProperties"]
    roles = dict.fromkeys(("fit", "holdout"), errors)
    return {**roles, **properties}, ["by_quantity"]


_SHAPES: Mapping[type, Callable[..., Shape]] = {
    Bar: _same,
    FitSummary: _fit_summary,
    LoadPoint: _plus("offered_rps", float, "The rate at which requests arrive."),
    Need: _plus("shards", int, "How many are needed."),
    PlanSetting: _plus("nodes", int, "Primaries and replicas."),
    Room: _room,
    Run: _run,
    RunPoint: _run_point,
    StudyTarget: _same,
    Table: _table,
}
"""How `to_dict` of a class differs from its fields."""


# --- what sources say ----------------------------------------------------------------------------


@cache
def meanings(kind: type) -> dict[str, str]:
    """What each field of a class means, inherited ones included."""
    found: dict[str, str] = {}
    for owner in reversed(kind.__mro__):
        if owner.__module__.startswith("forecache."):
            found |= _attributes(owner)
            found |= texts_below_fields(owner)
    return found


def texts_below_fields(owner: type) -> dict[str, str]:
    """Fields with a string below them."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def _attributes(owner: type) -> dict[str, str]:
    """Fields of the section Attributes of a docstring."""
    text = inspect.cleandoc(owner.__doc__ or "") + "\n"
    section = re.search(
        r"^Attributes\n-+\n((?:.*\n)*?)(?=^\w[^\n]*\n-{3,}\n|\Z)", text, re.MULTILINE
    )
    found = {}
    for entry in re.finditer(r"^(\w.*)\n((?:[ ]{4}.*\n|\n)+)", section[1] if section else "", re.M):
        for name in entry[1].split(","):
            found[name.strip()] = " ".join(entry[2].split())
    return found


def _prose(kind: type) -> str:
    """The first paragraph of a docstring."""
    text = inspect.cleandoc(kind.__doc__ or "")
    return " ".join(text.split("\n\n")[0].split())


def _models(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A schema of pydantic and those inside it."""
    seen: list[type[BaseModel]] = [kind]
    for model in seen:  # which grows meanwhile
        for field in model.model_fields.values():
            seen += [each for each in schemas_in(field.annotation) if each not in seen]
    return iter(dict.fromkeys(seen))


def schemas_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The schemas of pydantic that a type names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for inner in get_args(annotation):
            yield from schemas_in(inner)


@cache
def _guarded(module: ModuleType) -> dict[str, Any]:
    """Names that a module imports for type checkers only."""
    found: dict[str, Any] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            for statement in node.body:
                if isinstance(statement, ast.ImportFrom):
                    name = "." * statement.level + (statement.module or "")
                    origin = importlib.import_module(name, module.__package__)
                    for each in statement.names:
                        found[each.asname or each.name] = getattr(origin, each.name)
    return found
