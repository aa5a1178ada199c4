"""Writes what verbs answer: docs/results.md and docs/schema/*.json, and docs/api-answers.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, is_typeddict

from forecache.commands import all_commands

from ..harness import Files
from ..markdown import table
from .schemas import Schema, schemas, types_of

FOLDER = Path("docs/schema")
PAGE = Path("docs/results.md")
ANSWERS = Path("docs/api-answers.md")

HEAD = """\
# Results as JSON

Written by `make docs` from the types of the answers; a test holds what the verbs print against it.

With `--json` a verb prints one JSON document on standard output, and nothing else there. Its shape
is in a [JSON Schema](https://json-schema.org/draft/2020-12) for each verb. A schema describes this
version: it refuses fields that it doesn't name, and each version may add some.

Names end in the unit: `_rps` (requests a second), `_ms`, `_us`, `_ns`, `_bytes`, `_usd`. A number
that is not finite is `null`, and so is what is not known. An [Estimate](#estimate) is a value with
its 95% interval. What is left out where it is unset is marked *optional*. [cli.md](cli.md) says in
a paragraph what each verb answers; from Python, the same are attributes of
[the types of answers](api-answers.md). For who reads results with a program.

To check a document with [check-jsonschema](https://pypi.org/project/check-jsonschema/):

```sh
forecache simulate examples/quickstart.yaml --json > answer.json
check-jsonschema --schemafile docs/schema/simulate.json answer.json
```
"""

ANSWERS_HEAD = """\
# Python: answers

Written by `make docs` from the types that [the verbs](api.md) return. For users of Python.

An answer and its parts are frozen dataclasses, whose `to_dict()` is
[what `--json` prints](results.md); what a profile consists of are models of Pydantic. Each class
stands below the first verb that needs it. On a forge this page only lists them: their fields stand
here on the site that `make docs` builds, and in their modules.
"""


def files() -> Files:
    """The page and all schemas."""
    found = schemas()
    texts = {FOLDER / f"{verb}.json": _text(schema) for verb, schema in found.items()}
    return {PAGE: page(found), ANSWERS: answers(), **texts}


def page(found: Mapping[str, Schema]) -> str:
    """The page."""
    definitions: dict[str, Schema] = {}
    for schema in found.values():
        definitions |= schema["$defs"]
    rows = [
        [f"`{verb}`", _kind(schema), f"[{verb}.json](schema/{verb}.json)"]
        for verb, schema in found.items()
    ]
    parts = [HEAD, *table(["verb", "answers with", "schema"], rows), "", "## Types", ""]
    for name, schema in sorted(definitions.items()):
        parts += _section(name, schema)
    return "\n".join(parts).rstrip() + "\n"


def answers() -> str:
    """The page of the classes, which the site fills in from their docstrings."""
    parts, seen = [ANSWERS_HEAD], set()
    for command in all_commands():
        verb = str(command.name)
        new = [kind for kind in types_of(verb) if kind not in seen and not is_typeddict(kind)]
        seen.update(new)
        if new:
            parts.append(f"## {verb}\n")
        for kind in new:
            options = "    options: {heading_level: 3}\n"
            parts.append(f"::: {kind.__module__}.{kind.__name__}\n{options}")
    return "\n".join(parts).rstrip() + "\n"


def _text(schema: Schema) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def _section(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n"
    if schema.get("description"):
        yield f"{_escaped(schema['description'])}\n"
    if "properties" not in schema:
        yield f"{_kind(schema)}\n"
        return
    required = schema.get("required", ())
    rows = [
        [
            f"`{field}`",
            _kind(inner) + ("" if field in required else ", *optional*"),
            _meaning(inner),
        ]
        for field, inner in schema["properties"].items()
    ]
    yield from table(["field", "value", "meaning"], rows)
    yield ""


def _kind(schema: Schema) -> str:
    """A type in words, with links to those of this page."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_kind(each) for each in schema[several]))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(word)}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kinds = schema.get("type", "anything")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_plain_kind(kind, schema) for kind in kinds)


_WORDS = {
    "string": "text",
    "integer": "whole number",
    "boolean": "`true` or `false`",
    "null": "`null`",
}


def _plain_kind(kind: str, schema: Schema) -> str:
    if kind == "array":
        inner = schema.get("items") or {"anyOf": schema.get("prefixItems", [{}])}
        return f"list of {_kind(inner)}"
    if kind != "object":
        return _WORDS.get(kind, kind)
    if "properties" in schema:
        fields = [f"`{name}`: {_kind(inner)}" for name, inner in schema["properties"].items()]
        return f"{{{', '.join(fields)}}}"
    if schema.get("maxProperties") == 0:
        return "`{}`"
    inner = schema.get("additionalProperties")
    return f"mapping to {_kind(inner)}" if isinstance(inner, dict) and inner else "mapping"


def _meaning(schema: Mapping[str, Any]) -> str:
    return _escaped(schema.get("description", "")).replace("|", "\\|")


def _escaped(text: str) -> str:
    """Text with what Markdown would take for a mark outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*<_])", r"\\\1", p) for p in parts)
