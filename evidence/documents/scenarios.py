"""Writes docs/scenario.md from the schemas."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from forecache.models.scenario.source import KINDS, NODE
from forecache.models.scenario.sweeps import MOST_POINTS

from ..markdown import anchor, table
from .schemas import schemas_in, texts_below_fields

_HEAD = f"""\
# Fields of a scenario

Written by `make docs` from the schemas in `models/`; a test compares the two.

A scenario is a YAML file ([one](../README.md#one-scenario), [examples](../examples)). Any number or
word in it may be replaced by `{{sweep: [...]}}`; several sweeps are combined in every way, up to
{MOST_POINTS:,} points, or ten million with [`forecache sweep`](verbs.md#large-sweeps). One `with`
another is in step with it: `clients: {{sweep: [50, 400]}}` and, of the load generator, `threads:
{{sweep: [4, 16], with: clients}}` are two points. From Python a sweep may also be a `range` or a
NumPy array. Fields that aren't listed are refused; a default of
– means that the field is not set. The `kind` says what a file describes, without it its fields do.
A path in a file (of a host, an engine, prices, a trace, ...) is relative to the folder of that
file, wherever the command runs; in a mapping from Python it is relative to the current folder.

A number may have a unit: `value_bytes: 10KB`, `think_us: 2ms`, `rate_rps: 50k`, `growth_per_year:
30%`, `cpu_quota_cores: 1500m`, `maxmemory_bytes: 1.5Gi`. It is converted into the unit in the name
of its field; a unit of something else is refused. Bytes count as in redis.conf, in capitals or
not: `k`, `m`, `g` and `t` are of 1,000; `kb`, `mb`, `gb`, `tb`, `Ki`, `KiB` and so on of 1,024.
Only in fields in GB of 10^9 bytes are `KB` to `TB` of 1,000. Sizes in bytes are whole numbers. A
list where one value belongs is a sweep (`io_threads: [1, 2, 4]`), and one value where a list
belongs is a list of one. `engine: valkey 9.1` is an engine with its version. `auto` is short for
`automatic`. A rate without `arrival` is that of an open loop. A scenario may also be JSON.

[models.md](models.md) explains the fields of a node, [fleet.md](fleet.md) those of the other kinds.
"""

Place = tuple[type[BaseModel], list[str]]
"""A schema, and the paths of the fields that hold one."""


def page() -> str:
    """Return the whole page as Markdown."""
    places = _places()
    titles = _titles(places)
    parts = [_HEAD]
    for schema, _ in places:
        parts += [f"## {titles[schema]}\n", _prose(schema) + "\n"]
        parts += table(["field", "value", "default", "meaning"], _rows(schema, titles))
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _places() -> list[Place]:
    """Every schema of a scenario with where it stands, kind by kind in the order of the fields."""
    paths: dict[type[BaseModel], list[str]] = {}

    def visit(schema: type[BaseModel], kind: str, path: str) -> None:
        for name, field in schema.model_fields.items():
            for inner in schemas_in(field.annotation):
                where = f"{path}.{name}" if path else name
                new = inner not in paths
                paths.setdefault(inner, []).append(kind + where)
                if new:
                    visit(inner, kind, where)

    for name, scenario_kind in KINDS.items():
        schema = scenario_kind.schema
        paths[schema] = [f"The whole file of kind {name}"]
        visit(schema, "" if name == NODE else f"{name}: ", "")
    return list(paths.items())


def _titles(places: Sequence[Place]) -> dict[type[BaseModel], str]:
    """What sections are called; schemas that the same field may hold also by their own names."""
    titles = {schema: ", ".join(paths) for schema, paths in places}
    return {
        schema: f"{title}: {_words(schema)}" if list(titles.values()).count(title) > 1 else title
        for schema, title in titles.items()
    }


def _rows(schema: type[BaseModel], titles: Mapping[type[BaseModel], str]) -> Iterator[list[str]]:
    meanings = meanings_of(schema)
    for name, field in schema.model_fields.items():
        value = _value(field.annotation, field.metadata, titles)
        yield [f"`{name}`", value, _default(field), meanings.get(name, "")]


def meanings_of(schema: type[BaseModel]) -> dict[str, str]:
    """What each field of a schema means: the string below it in the source, inherited ones too."""
    found: dict[str, str] = {}
    for owner in reversed(schema.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            with suppress(OSError):  # made from the table of commands, without a source
                found |= texts_below_fields(owner)
    return found | {n: f.description for n, f in schema.model_fields.items() if f.description}


def _value(annotation: Any, bounds: Sequence[Any], titles: Mapping[type[BaseModel], str]) -> str:
    """What may stand there, with links to the schemas it may be."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = [limit for mark in inner[1:] for limit in _limits(mark)]
        return _value(inner[0], [*bounds, *limits], titles)
    if origin in (Union, UnionType):
        kinds = [_value(kind, bounds, titles) for kind in inner if kind is not NoneType]
        return " or ".join(dict.fromkeys(kinds))
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in inner)
    if origin is list:
        return f"list of {_length(bounds)}{_value(inner[0], [], titles)}"
    if origin is dict:
        return "mapping"
    if annotation is bool:
        return "`true` or `false`"
    if annotation is str:
        return "text"
    if annotation in (int, float):
        return ("whole number" if annotation is int else "number") + _range(bounds)
    return f"[{_words(annotation)}](#{anchor(titles[annotation])})"


def _limits(mark: Any) -> list[Any]:
    return list(mark.metadata) if isinstance(mark, FieldInfo) else [mark]


def _range(bounds: Sequence[Any]) -> str:
    least, above = _bound(bounds, "ge"), _bound(bounds, "gt")
    most, below = _bound(bounds, "le"), _bound(bounds, "lt")
    words = "" if least is None else f" from {_number(least)}"
    words += "" if above is None else f" above {_number(above)}"
    words += "" if most is None else f" {'up to' if least is None else 'to'} {_number(most)}"
    return words if below is None else f"{words} below {_number(below)}"


def _length(bounds: Sequence[Any]) -> str:
    fewest, most = _bound(bounds, "min_length"), _bound(bounds, "max_length")
    if most is not None:
        return f"{fewest or 0} to {_number(most)} of: "
    return "" if fewest is None else f"{fewest} or more of: "


def _bound(bounds: Sequence[Any], name: str) -> Any:
    """One kind of bound by pydantic's name for it, such as `ge`; None where there is none."""
    return next((found for b in bounds if (found := getattr(b, name, None)) is not None), None)


def _number(value: Any) -> str:
    whole = float(value).is_integer()
    return f"{int(value):,}" if whole else f"{value:g}"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value in ([], {}):
        return "–"
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, list):
        plain = [i.model_dump() if isinstance(i, BaseModel) else i for i in value]
        return ", ".join(f"`{item}`" for item in plain)
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if isinstance(value, str) else f"{_number(value)}"


def _prose(schema: type[BaseModel]) -> str:
    """The docstring with every paragraph on one line."""
    text = inspect.cleandoc(schema.__doc__ or "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _words(schema: type[BaseModel]) -> str:
    """`WeightedSizes` as `weighted sizes`."""
    return "".join(f" {c.lower()}" if c.isupper() else c for c in schema.__name__).strip()
