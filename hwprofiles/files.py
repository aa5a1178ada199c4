"""Reading, checking and writing the small text files of the project.

Every error a file can cause becomes one `InputError` sentence that names the file, the field, what
was found and what is valid.

YAML is of bounded size and depth, has each key once, and numbers that can be counted. The parser of
events needs no stack; composing and constructing what they describe does, and an alias repeats what
may be long. So events are counted first.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import tempfile
import types
import typing
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from forecache.sim.errors import InputError

ModelT = TypeVar("ModelT", bound=BaseModel)

MOST_BYTES = 64 * 2**20
"""Of a text file."""


def shipped(package: str, folder: str) -> dict[str, Path]:
    """The YAML files a package ships in a folder, by name without the ending."""
    return {
        entry.name.removesuffix(".yaml"): Path(str(entry))
        for entry in (resources.files(package) / folder).iterdir()
        if entry.name.endswith(".yaml")
    }


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Raises
    ------
    InputError
        The file is missing, unreadable, not UTF-8, not YAML (with its line), empty, or its top
        level is not a mapping.
    """
    text = read_text(path)
    try:
        data = load_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "unknown line"
        problem = error.problem or error.context or "not valid YAML"
        raise InputError(f"{path}, {where}: {problem}; valid is a YAML mapping.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Among them a control character (ReaderError) and a date such as 2026-13-01 (ValueError).
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: can't be read as YAML: {reason[:200]}.") from None
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise InputError(f"{path}: found {found}; valid is a mapping of fields at the top level.")
    for key in data:
        if not isinstance(key, str):
            raise InputError(f"{path}: found the field {key!r}; valid field names are text.")
    return data


def read_text(path: str | Path) -> str:
    """Read a UTF-8 text file; `InputError` when it is missing, too long, unreadable or binary."""
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(
                f"{path}: found more than {MOST_BYTES / 2**20:.0f} MiB; valid is a shorter file."
            )
        return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8").read()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; valid is a text file.") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8; valid is a text file in UTF-8."
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: can't be read: {reason}.") from None


def write_text_atomic(path: str | Path, text: str) -> None:
    """Write `text` as UTF-8, as `write_bytes_atomic` does."""
    write_bytes_atomic(path, text.encode("utf-8"))


def write_bytes_atomic(path: str | Path, data: bytes) -> None:
    """Write `data` so that a reader sees either the old file or the whole new one.

    The parent folder is created. The data go to a temporary sibling that is renamed when whole.
    What is on disk afterwards is one of the two even if the machine stops.

    Raises
    ------
    InputError
        The folder or file can't be written.
    """
    target = Path(path)
    temporary: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(target)
        temporary = None
    except OSError as error:
        raise InputError(f"{path}: can't be written: {error.strerror or error}.") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Safe dumper that writes no anchors, so that the file reads top to bottom."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Line separators that PyYAML would write bare, and then read back as blanks.
    style = '"' if any(mark in text for mark in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def dump_yaml(data: Mapping[str, Any]) -> str:
    """YAML text of plain data: keys in their order, innermost lists and mappings on one line."""
    return yaml.dump(
        dict(data),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        allow_unicode=True,
        width=100,
    )


@contextmanager
def named(file: str | Path) -> Iterator[None]:
    """Put a file's name before the sentence of an `InputError` of the block that has none."""
    try:
        yield
    except InputError as error:
        if str(file) in str(error):
            raise
        raise InputError(f"{file}: {error}") from None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause that helps with an unknown name: close matches, else all valid names."""
    names = sorted(set(known))
    by_lower = {known_name.lower(): known_name for known_name in names}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=4, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(by_lower[match]) for match in close) + "?"
    return "valid are " + ", ".join(names) + "." if names else "none is valid here."


class FieldError(ValueError):
    """What a check across fields finds, raised in a validator of a model that `parse` checks.

    Parameters
    ----------
    field
        Path of the field at fault, from the model whose validator it is.
    found
        Its value, as given.
    valid
        What it should be, and with what.
    """

    def __init__(self, field: str, *, found: object, valid: str) -> None:
        super().__init__(f"{field}: found {_short(found)}; valid is {valid}")
        self.field, self.found, self.valid = field, found, valid

    def __reduce__(self) -> tuple[Any, ...]:
        """What pickle needs to hand it from a worker process to the one that asked."""
        return partial(FieldError, found=self.found, valid=self.valid), (self.field,)


def parse(model: type[ModelT], data: object, *, file: str | Path, at: str = "") -> ModelT:
    """Check plain data against a pydantic model.

    Parameters
    ----------
    at
        Path in the file of what `data` holds; nothing for a whole file.

    Raises
    ------
    InputError
        One sentence about the first problem: file, field path, what was found, what is valid. An
        unknown field gets the nearest valid names. Further problems are counted, not listed.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{file}: {_first_problem(model, data, error, at)}") from None


def _first_problem(model: type[BaseModel], data: object, error: ValidationError, at: str) -> str:
    """The sentence for the most telling problem of a validation error."""
    # pydantic reports one problem per branch of a union; those share the path in the data.
    by_path: dict[tuple[str | int, ...], list[Any]] = {}
    for problem in error.errors(include_url=False):
        path = _path_in_data(data, problem["loc"], problem["type"])
        by_path.setdefault(path, []).append(problem)
    # A misspelt name is the likelier cause when a field is also missing; a deep problem is the
    # likelier cause when a union also offers a scalar.
    path, problems = min(
        by_path.items(),
        key=lambda item: (item[1][0]["type"] != "extra_forbidden", -len(item[0])),
    )
    above = [at] if at else []
    others = len(by_path) - 1
    more = f" ({others} more problem{'s' if others > 1 else ''} in this file)" if others else ""
    across = (problems[0].get("ctx") or {}).get("error")
    if isinstance(across, FieldError):
        field = format_path([*above, *path, across.field])
        return f"field '{field}': found {_short(across.found)}; valid is {across.valid}{more}."
    field = format_path([*above, *path]) or "the top level"
    kinds = {problem["type"] for problem in problems}
    if "extra_forbidden" in kinds:
        known = _fields_at(model, path[:-1])
        return f"unknown field '{field}'; {did_you_mean(str(path[-1]), known)}{more}"
    if kinds == {"missing"}:
        return f"the field '{field}' is missing{more}."
    tagged = _tag_problem([*above, *path], problems[0]) if len(kinds) == 1 else None
    if tagged is not None:
        return f"{tagged}{more}"
    valid = " or ".join(dict.fromkeys(valid_text(problem) for problem in problems))
    found = _short(problems[0]["input"])
    where = f"field '{field}'" if [*above, *path] else field
    return f"{where}: found {found}; valid is {valid}{more}."


def _tag_problem(path: Sequence[str | int], problem: Mapping[str, Any]) -> str | None:
    """The sentence where the field that tells the branch of a union is missing or unknown."""
    context = problem.get("ctx") or {}
    # Pydantic quotes the field's name; a function that tells branches apart has none.
    name = str(context.get("discriminator"))
    if not name.startswith("'"):
        return None
    field = format_path([*path, name.strip("'")])
    if problem["type"] == "union_tag_not_found":
        return f"the field '{field}' is missing."
    if problem["type"] == "union_tag_invalid":
        tags = [tag.strip("'") for tag in str(context["expected_tags"]).split(", ")]
        tag = str(context["tag"])
        return f"field '{field}': found {_short(tag)}; {did_you_mean(tag, tags)}"
    return None


def _path_in_data(
    data: object, loc: Sequence[str | int], problem_type: str
) -> tuple[str | int, ...]:
    """The part of a pydantic location that leads through the data, without union branch names."""
    path: list[str | int] = []
    here = data
    for part in loc:
        is_key = isinstance(here, Mapping) and part in here
        is_index = isinstance(here, list) and isinstance(part, int) and 0 <= part < len(here)
        if is_key or is_index:
            path.append(part)
            here = here[part]  # type: ignore[index]
    if problem_type == "missing" and loc:
        path.append(loc[-1])
    return tuple(path)


def format_path(path: Iterable[str | int]) -> str:
    """`caches[1].size_bytes` for `("caches", 1, "size_bytes")`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text


def _fields_at(model: type[BaseModel], path: Iterable[str | int]) -> set[str]:
    """Names of the fields the model allows at a path; of all branches where there is a union."""
    models = [model]
    for part in path:
        below: list[type[BaseModel]] = []
        for candidate in models:
            field = candidate.model_fields.get(part) if isinstance(part, str) else None
            if field is not None:
                below += _models_in(field.annotation)
        # An index or a free key stays among the models found for its container.
        models = below or models
    fields = [item for candidate in models for item in candidate.model_fields.items()]
    return {field.alias or name for name, field in fields}


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Every pydantic model inside a type annotation."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [found for part in typing.get_args(annotation) for found in _models_in(part)]


def valid_text(problem: Mapping[str, Any]) -> str:
    """What a problem's field should have held."""
    context = problem.get("ctx") or {}
    if problem["type"] == "value_error":
        return str(context.get("error", problem["msg"])).rstrip(".")
    if problem["type"] in ("literal_error", "enum"):
        return str(context.get("expected", problem["msg"]))
    if problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return "a mapping"
    if problem["type"] in ("too_short", "too_long"):
        bound = "at least" if problem["type"] == "too_short" else "at most"
        limit = context.get("min_length", context.get("max_length"))
        return f"{bound} {limit} item{'s' if limit != 1 else ''}"
    message = str(problem["msg"]).removeprefix("Tuple should have ").removeprefix("Value error, ")
    for prefix in ("Input should be a valid ", "Input should be "):
        if message.startswith(prefix):
            rest = message.removeprefix(prefix).split(",")[0]
            article = "an" if rest[:1] in "aeiou" else "a"
            return f"{article} {rest}" if prefix.endswith("a valid ") else rest
    return message[:1].lower() + message[1:]


def _short(value: object) -> str:
    """A value as a person would write it, cut to a length that fits in a sentence."""
    if isinstance(value, Mapping):
        return "a mapping with " + (", ".join(str(key) for key in list(value)[:6]) or "no fields")
    if isinstance(value, int) and value.bit_length() > 1000:
        return "an integer of hundreds of digits"  # Python refuses to write thousands of them
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- YAML text ------------------------------------------------------------------------------------


MOST_DEPTH = 64
"""Lists and mappings within each other."""

MOST_VALUES = 500_000
"""Values and keys, those that aliases repeat included."""

_LARGEST_INTEGER = 2**63

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _PlainLoader(_Loader):
    """A safe loader that refuses a key given twice, which YAML would drop silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    raise _problem(f"the key {key!r} is given twice", key_node.start_mark)
                seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """An integer of 64 bits, which is what a simulation counts with."""
        value = int(self.construct_yaml_int(node))
        if not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
            raise _problem("found an integer beyond 64 bits", node.start_mark)
        return value


# YAML 1.2 has 1e6 for a number; YAML 1.1, which PyYAML reads, wants 1.0e+6.
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+\Z"),
    list("-+0123456789"),
)
_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_integer)


def load_yaml(text: str) -> Any:
    """The data of a YAML document.

    Raises
    ------
    yaml.YAMLError, ValueError
        It is not valid, or deeper or larger than is read here.
    """
    _check_shape(text)
    return yaml.load(text, Loader=_PlainLoader)


def _check_shape(text: str) -> None:
    """Refuse what nests too deeply, has too many values, or contains itself."""
    sizes: dict[str, tuple[int, int]] = {}  # of what has an anchor: values, depth
    open_nodes: list[tuple[str | None, int, int]] = []  # anchor, values so far, depth below
    for event in yaml.parse(text, Loader=_Loader):
        mark = event.start_mark
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1, 0))
            if len(open_nodes) > MOST_DEPTH:
                raise _problem(f"found more than {MOST_DEPTH} levels of nesting", mark)
            continue
        if isinstance(event, yaml.ScalarEvent):
            anchor, values, depth = event.anchor, 1, 0
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise _problem(f"found the alias {event.anchor!r} of nothing before it", mark)
            anchor, (values, depth) = None, sizes[event.anchor]
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values, depth = open_nodes.pop()
            depth += 1
        else:
            continue
        if anchor is not None:
            sizes[anchor] = values, depth
        if open_nodes:
            above, so_far, below = open_nodes[-1]
            open_nodes[-1] = above, so_far + values, max(below, depth)
            if so_far + values > MOST_VALUES:
                raise _problem(f"found more than {MOST_VALUES:,} values", mark)
            if len(open_nodes) + depth > MOST_DEPTH:
                raise _problem(f"found more than {MOST_DEPTH} levels of nesting", mark)


def _problem(words: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, words, mark)
