"""Reading, checking and writing the small text files of the project.

Every error a file can cause becomes one `InputError` sentence that names the file, the field, what
was found and what is valid.

YAML is of bounded size and depth, has each key once, and numbers that can be counted. The parser of
events needs no stack; composing and constructing what they describe does, and an alias repeats what
may be long. So events are counted first.
"""

from __future__ import annotations

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

from .amounts import number_in, valid_number

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
        line = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark else ""
        letter = line[mark.column : mark.column + 1] if mark else ""
        raise InputError(f"{path}, {where}: {_yaml_problem(error, letter)}.") from None
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


_YAML_PROBLEMS = {
    "mapping values are not allowed in this context": "found a colon where no field can begin; "
    "valid is `name: value` with a space after the colon (in the line above, too), the same "
    "indentation for all fields of a mapping, and quotes around a value that has a colon",
    "did not find expected alphabetic or numeric character": "found a value that begins with * or "
    "&; valid is quotes around it",
    "did not find expected ',' or '}'": "found neither a comma nor } after a "
    "field; valid is one of them",
    "did not find expected ',' or ']'": "found neither a comma nor ] after a "
    "value; valid is one of them",
    "did not find expected key": "found a line indented unlike the fields before it; valid is the "
    "same indentation for all fields of a mapping",
    "found unexpected end of stream": "found a quote that is never closed; valid is one at each "
    "end",
}
"""What the parser says, in the words of whoever wrote the file."""


def _yaml_problem(error: yaml.MarkedYAMLError, letter: str) -> str:
    """What is wrong and what is valid, where the parser stopped at a letter."""
    problem = error.problem or error.context or "not valid YAML"
    if letter == "\t":
        return "found a tab; valid is indentation by spaces"
    if letter and letter in "*&@`%!" and problem not in _YAML_PROBLEMS:
        return f"found a value that begins with {letter} ({problem}); valid is quotes around it"
    return _YAML_PROBLEMS.get(problem, f"{problem}; valid is a YAML mapping")


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


MOST_NAMES, MOST_WRITTEN = 30, 8
"""Valid names that a sentence lists, and fields of a mapping that it lists with something else."""


def did_you_mean(name: str, known: Iterable[str], *, listed_by: str = "") -> str:
    """A clause that helps with an unknown name: close ones, else all valid names if they are few.

    Of many it has the nearest, and `listed_by`, which is what lists all.
    """
    names = sorted(set(known))
    if close := close_names(name, names):
        return f"did you mean {' or '.join(map(repr, close))}?"
    if len(names) <= MOST_NAMES:
        return "valid are " + ", ".join(names) + "." if names else "none is valid here."
    nearest = ", ".join(map(repr, sorted(names, key=lambda known: -_likeness(name, known))[:3]))
    more = f"{listed_by} lists all {len(names)}" if listed_by else f"there are {len(names)}"
    return f"the nearest are {nearest}; {more}."


def close_names(name: str, known: Iterable[str]) -> list[str]:
    """Names that may have been meant, at most four, the likeliest first.

    That is one with few wrong letters; one whose words are among the words of the other (`version`,
    `engine_version`); or one that begins with the same word (`value_size`, `value_bytes`).
    """
    words = _WORD.findall(name.lower())

    def close(other: str) -> bool:
        its = _WORD.findall(other.lower())
        shared = words and its and (set(words) <= set(its) or set(its) <= set(words))
        begins = len(words) > 1 and len(its) > 1 and words[0] == its[0] and len(words[0]) > 2
        return _likeness(name, other) >= _ALIKE or bool(shared) or begins

    return sorted(filter(close, known), key=lambda other: (-_likeness(name, other), other))[:4]


_WORD = re.compile(r"[a-z0-9]+")
_ALIKE = 0.66
"""Likeness of names of which one is probably the other, misspelt."""


def _likeness(name: str, other: str) -> float:
    """From 0 to 1: one less the edits for letters of the longer; 0.9 of the same letters."""
    one, two = name.lower(), other.lower()
    row = list(range(len(two) + 1))
    for i, letter in enumerate(one, 1):
        last, row = row, [i]
        for j, its in enumerate(two):
            row.append(min(last[j + 1] + 1, row[j] + 1, last[j] + (letter != its)))
    swapped = one != two and sorted(one) == sorted(two)
    return 0.9 if swapped else 1.0 - row[-1] / max(len(one), len(two), 1)


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
        return f"unknown field '{field}'; {_known_field(model, path)}{more}"
    if kinds == {"missing"}:
        return f"the field '{field}' is missing{more}."
    tagged = _tag_problem([*above, *path], problems[0]) if len(kinds) == 1 else None
    if tagged is not None:
        return f"{tagged}{more}"
    names = [str(part) for part in path]
    valid = " or ".join(dict.fromkeys(valid_text(problem, names) for problem in problems))
    if kinds == {"model_type"}:
        below = _fields_at(model, path)
        few = len(below) <= MOST_WRITTEN
        listed = ", ".join(sorted(below)) if few else "fields that docs/scenario.md lists"
        valid += f" with {listed}"
    found = _short(problems[0]["input"])
    where = f"field '{field}'" if [*above, *path] else field
    return f"{where}: found {found}; valid is {valid}{more}."


def _known_field(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """What an unknown field may be meant as: one beside it, or of its very name elsewhere."""
    name, beside = str(path[-1]), _fields_at(model, path[:-1])
    if elsewhere := _path_of(model, name):
        names = [*close_names(name, beside)[:2], elsewhere]
        return f"did you mean {' or '.join(map(repr, names))}?"
    return did_you_mean(name, beside, listed_by="docs/scenario.md")


def _path_of(model: type[BaseModel], name: str) -> str | None:
    """Where a model has a field of a name, the outermost; lists are not entered."""
    models = [("", model)]
    for path, here in models:  # which grows meanwhile
        if name in here.model_fields:
            return path + name
        for known, field in here.model_fields.items():
            if not _takes(field.annotation, list):
                models += [(f"{path}{known}.", each) for each in _models_in(field.annotation)]
    return None


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


_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""Words for pydantic's bounds of a number."""


def valid_text(problem: Mapping[str, Any], fields: Sequence[str] = ()) -> str:
    """What a problem's field should have held; the names on the way say what a number is of."""
    context = problem.get("ctx") or {}
    if problem["type"] in ("int_type", "float_type", "int_from_float"):
        return valid_number(fields, whole=problem["type"] != "float_type")
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
    for name, words in _BOUNDS.items():
        if name in context:
            bound, found = context[name], problem["input"]
            if bound == 1 and name in ("le", "lt") and 1 < found < 100:
                return f"{words} 1, or {found:g}%"
            return f"{words} {bound:,}" if isinstance(bound, int) else f"{words} {bound:,.10g}"
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


# --- what people write ----------------------------------------------------------------------------


def is_sweep(value: object) -> bool:
    """Whether a value is `{sweep: [...]}`, alone or `with` another."""
    return isinstance(value, Mapping) and "sweep" in value and value.keys() <= {"sweep", "with"}


def as_written(model: type[BaseModel], data: Mapping[str, Any]) -> dict[str, Any]:
    """Data of a file in which what people write stands as the model has it.

    Where a field takes no text, a number with a unit (`10KB`) becomes one in the field's own and
    `auto` becomes `automatic`; where it takes no list, a list becomes a sweep; where it takes lists
    only, a single value becomes one. All else stays as it is, for `parse` to check.
    """
    found: dict[str, Any] = _as_written(data, [model], model, ())
    return found


def _as_written(
    value: Any, models: Sequence[type[BaseModel]], annotation: Any, fields: tuple[str, ...]
) -> Any:
    """The same of a part, which `annotation` allows and whose fields are those of `models`."""
    if is_sweep(value) and isinstance(value["sweep"], list):
        values = [_as_written(each, models, annotation, fields) for each in value["sweep"]]
        return {**value, "sweep": values}
    if isinstance(value, Mapping):
        found = {}
        for key, item in value.items():
            below = [m.model_fields[key].annotation for m in models if key in m.model_fields]
            if below:
                kinds = tuple(below)
                inner = [each for kind in kinds for each in _models_in(kind)]
                found[key] = _as_written(item, inner, kinds, (*fields, str(key)))
                if _in_lists_only(found[key], kinds):
                    found[key] = [found[key]]
            elif _takes(annotation, dict):
                found[key] = _as_written(item, models, annotation, (*fields, str(key)))
            else:
                found[key] = item
        return found
    if isinstance(value, list):
        items = [_as_written(item, models, annotation, fields) for item in value]
        if not items or _takes(annotation, list) or _mappings_only(annotation, items):
            return items
        return {"sweep": items}
    if isinstance(value, str) and not _takes(annotation, str):
        if value == "auto" and _takes(annotation, "automatic"):
            return "automatic"
        number = number_in(value, fields)
        part = isinstance(number, float) and not _takes(annotation, float)
        return value if number is None or part else number
    return value


def _in_lists_only(value: Any, annotation: Any) -> bool:
    """Whether an annotation allows lists, and nothing else that a value may be."""
    if value is None or isinstance(value, list) or is_sweep(value):
        return False
    options = [each for each in _options(annotation) if each is not types.NoneType]
    others = [each for each in options if typing.get_origin(each) is not list]
    words = [word for each in others for word in typing.get_args(each)]
    only_words = all(typing.get_origin(each) is typing.Literal for each in others)
    return len(others) < len(options) and only_words and value not in words


def _mappings_only(annotation: Any, items: Sequence[Any]) -> bool:
    """Whether an annotation allows mappings only, and not all of some values are any."""
    scalars = any(_takes(annotation, kind) for kind in (str, int, float, bool, typing.Literal))
    return not scalars and not all(isinstance(item, Mapping) for item in items)


def _options(annotation: Any) -> list[Any]:
    """What a union, or each of several annotations, allows."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = typing.get_args(annotation)
    if isinstance(annotation, tuple):
        return [each for part in annotation for each in _options(part)]
    return [annotation]


def _takes(annotation: Any, kind: Any) -> bool:
    """Whether a type, a word or a container is among what an annotation allows, models apart."""
    if isinstance(annotation, tuple):
        return any(_takes(each, kind) for each in annotation)
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if kind in (annotation, origin):
        return True
    # Keys of a mapping are text, whatever its values are.
    return any(_takes(part, kind) for part in (parts[1:] if origin is dict else parts))


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
