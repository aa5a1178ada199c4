"""Files that other files name: hosts, engines, load generators, price tables, traces, samples.

A path in a file is relative to the folder of that file, whatever folder a command runs in. Data
that were read (`read_with_files`) hold paths that can be opened from the current folder; whoever
writes such data to a file converts them again (`seen_from`, `NamedFiles`, `with_absolute_paths`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from forecache.sim.errors import InputError

from .files import dump_yaml, is_sweep, read_text, read_yaml, write_bytes_atomic

_ALWAYS_FILES = ("trace", "sample")
FILE_FIELDS = frozenset({"host", "engine", "engines", "tool", "prices", *_ALWAYS_FILES})
"""Fields of scenarios, datasets and instances that may name a file; all but `trace` and `sample`
may also name something that is shipped."""

MOST_EMBEDDED_BYTES = 256 * 1024
"""Longest file that goes into a report together with the scenario that names it."""

_ENDINGS = (".yaml", ".yml")


def names_file(name: str) -> bool:
    """Whether a name is the path of a file rather than that of something shipped."""
    return name.endswith(_ENDINGS) or "/" in name


def change_files(data: Any, change: Callable[[str, str], str], *, field: str = "") -> Any:
    """Data in which every path of a file is replaced.

    Parameters
    ----------
    data
        Plain data, in which a field may be a sweep.
    change
        From the field's name and the path to what stands in its place.
    field
        Name of the field that holds `data`.
    """
    if isinstance(data, Mapping):
        if is_sweep(data):
            return {**data, "sweep": change_files(data["sweep"], change, field=field)}
        return {k: change_files(v, change, field=str(k)) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [change_files(each, change, field=field) for each in data]
    if not isinstance(data, str) or field not in FILE_FIELDS:
        return data
    if field in _ALWAYS_FILES or names_file(data):
        return change(field, data) if data and "\0" not in data else data
    return data


def read_with_files(file: str | Path) -> dict[str, Any]:
    """Read a YAML file; paths in it, relative to its folder, become relative to the current one."""
    data, folder = read_yaml(file), Path(file).parent
    if folder == Path():
        return data

    def found(field: str, name: str) -> str:
        path = folder / name
        if Path(name).is_file() and not path.exists():
            meant = os.path.relpath(name, folder)
            raise InputError(
                f"{file}: field '{field}': found {name!r}, but no file {path}. There is {name} in "
                "the current folder, but a path in a file is relative to the folder of that file; "
                f"valid is {meant}."
            )
        return str(path)

    changed: dict[str, Any] = change_files(data, found)
    return changed


def seen_from(data: Any, folder: str | Path, *, field: str = "") -> Any:
    """Data whose paths can be opened from a folder, for a file to be written there.

    Parameters
    ----------
    field
        Name of the field that holds `data`.
    """

    def relative(field: str, name: str) -> str:
        if Path(name).is_absolute():
            return name
        return _as_path(field, os.path.relpath(name, folder))

    return change_files(data, relative, field=field)


def with_absolute_paths(data: Any) -> Any:
    """Data whose paths hold wherever on this machine they are written to."""
    return change_files(data, lambda _, name: str(Path(name).resolve()))


def _as_path(field: str, name: str) -> str:
    """A name that is read as that of a file in such a field."""
    return name if field in _ALWAYS_FILES or names_file(name) else f"./{name}"


def with_digests(data: Any) -> Any:
    """Data in which the content of each file stands for its path, so that it may lie elsewhere."""
    return change_files(data, lambda _, name: _digest(name) or name)


def _digest(name: str) -> str | None:
    """Of a file and of all files that it names; None if it can't be read."""
    try:
        digest = hashlib.sha256(Path(name).read_bytes())
    except OSError:
        return None
    for file in files_named(_yaml_of(name)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def files_named(data: Any) -> list[Path]:
    """The files that data name, and those that these name in turn, each once."""
    found: dict[Path, None] = {}

    def add(_: str, name: str) -> str:
        file = Path(name)
        if file.is_file() and file not in found:
            found[file] = None
            change_files(_yaml_of(name), add)
        return name

    change_files(data, add)
    return list(found)


def _yaml_of(name: str) -> dict[str, Any]:
    """The content of a file that may name others; none of one that is not YAML or is damaged."""
    with suppress(InputError):  # whoever needs it will say what is wrong with it
        return read_with_files(name) if name.endswith(_ENDINGS) else {}
    return {}


class NamedFiles:
    """Files that scenarios name, collected to lie in one folder together.

    Attributes
    ----------
    paths
        Where each of them is, by its name in that folder.
    texts
        Their texts by name, in which paths hold there too.
    too_large
        Names of those that have no text: binary ones, and those above `MOST_EMBEDDED_BYTES`.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.paths: dict[str, Path] = {}
        self.texts: dict[str, str] = {}
        self.too_large: list[str] = []
        self._taken = set(taken)
        self._names: dict[Path, str] = {}

    def collect(self, data: Any) -> Any:
        """Collect what data name, and return the data as they hold beside these files."""
        return change_files(data, lambda field, name: _as_path(field, self._add(name)))

    def text_of(self, file: str | Path) -> str:
        """The text of a file that names others, as it holds beside these.

        As it is, remarks included, unless a path in it has to change.
        """
        data = read_with_files(file)
        collected = self.collect(data)
        return read_text(file) if collected == read_yaml(file) else dump_yaml(collected)

    def write(self, folder: Path) -> None:
        """Write all of them into a folder, the large ones as they are."""
        for name, path in self.paths.items():
            text = self.texts.get(name)
            data = path.read_bytes() if text is None else text.encode("utf-8")
            write_bytes_atomic(folder / name, data)

    def _add(self, name: str) -> str:
        file = Path(name)
        if not file.is_file():
            return name
        known = self._names.get(file.resolve())
        if known is not None:
            return known
        called, number = file.name, 2
        while called in self._taken:
            called, number = f"{file.stem}-{number}{file.suffix}", number + 1
        self._taken.add(called)
        self._names[file.resolve()], self.paths[called] = called, file
        try:
            small = file.stat().st_size <= MOST_EMBEDDED_BYTES
            text = self._text(file) if small else None
        except InputError:
            text = None
        if text is None:
            self.too_large.append(called)
        else:
            self.texts[called] = text
        return called

    def _text(self, file: Path) -> str:
        return self.text_of(file) if file.suffix in _ENDINGS else read_text(file)

    @property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of each, by name."""
        return {
            name: hashlib.sha256(
                self.texts[name].encode() if name in self.texts else path.read_bytes()
            ).hexdigest()
            for name, path in self.paths.items()
        }
