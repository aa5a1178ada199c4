"""How to repeat an answer: what was asked, versions, seed, hashes, the command; how to cite it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import dump_yaml
from forecache.hwprofiles.named_files import NamedFiles
from forecache.models.over_time.kept_runs import source_digest
from forecache.models.scenario.source import content_of
from forecache.sim.plain import plain as as_plain

SOURCES = "models and catalogue of forecache"


@dataclass(frozen=True)
class Question:
    """What was asked, so that it can be asked again.

    Attributes
    ----------
    command
        As it would be typed where the files of `scenarios` lie.
    scenarios
        Name and YAML text of each.
    hashes
        SHA-256 of what the answer depends on, by name.
    again
        Commands that predict the same from measurements that are kept, where there are any.
    kept
        Name and text of each file that the scenarios or these commands need.
    too_large
        Names of files that the scenarios need too, but that are binary or too long for a report.
    """

    command: str
    scenarios: Sequence[tuple[str, str]]
    hashes: Mapping[str, str] = field(default_factory=dict)
    again: Sequence[str] = ()
    kept: Sequence[tuple[str, str]] = ()
    too_large: Sequence[str] = ()

    @property
    def files(self) -> list[tuple[str, str]]:
        """Name and text of all files that are needed, each name once."""
        return list(dict([*self.kept, *self.scenarios]).items())


def question(
    verb: str,
    *sources: str | Path | Mapping[str, Any],
    options: Mapping[str, object],
    beside: Sequence[str | Path] = (),
) -> Question:
    """What a verb was asked about scenarios.

    Parameters
    ----------
    sources
        Files, or mappings of the same shape.
    options
        By their name on the command line; those that are None, False or () are left out. Files,
        as `Path`, are hashed.
    beside
        Other files or folders, such as INFO of servers: named and hashed, not shown.
    """
    scenarios: list[tuple[str, str]] = []
    names = _names_of(sources)
    files = NamedFiles(taken=names)
    for name, source in zip(names, sources, strict=True):
        scenarios.append((name, scenario_text(source, files)))
    kept = [Path(each) for each in beside]
    kept += [each for each in options.values() if isinstance(each, Path)]
    hashes = texts_sha256(dict(scenarios)) | files.hashes
    hashes |= {each.name: path_sha256(each) for each in kept} | {SOURCES: source_digest()}
    named = {n: each.name if isinstance(each, Path) else each for n, each in options.items()}
    return Question(
        command_line(verb, [*names, *(Path(each).name for each in beside)], named),
        scenarios,
        hashes,
        kept=list(files.texts.items()),
        too_large=files.too_large,
    )


def _names_of(sources: Sequence[str | Path | Mapping[str, Any]]) -> list[str]:
    """What to call the file of each scenario, where all lie in one folder."""
    names: list[str] = []
    for number, source in enumerate(sources, start=1):
        if isinstance(source, Mapping):
            names.append(f"scenario{number if len(sources) > 1 else ''}.yaml")
        else:
            # Two may be called alike in two folders.
            name = Path(source).name
            names.append(name if name not in names else f"after-{name}")
    return names


def scenario_text(source: str | Path | Mapping[str, Any], files: NamedFiles) -> str:
    """The text of a scenario that lies beside the files that it names, which are collected.

    A file's own text, remarks included, unless a path in it has to change.
    """
    if isinstance(source, Mapping):
        return dump_yaml(files.collect(plain_mapping(source)))
    return files.text_of(source)


def path_sha256(path: Path) -> str:
    """SHA-256 of a file; of a folder that of the names and hashes of all files below it."""
    if path.is_file():
        return _sha256(path.read_bytes())
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    listed = "".join(f"{path_sha256(path / name)}  {name}\n" for name in files)
    return _sha256(listed.encode())


def texts_sha256(files: Mapping[str, str]) -> dict[str, str]:
    """SHA-256 of each text as a file, by name."""
    return {name: _sha256(text.encode()) for name, text in files.items()}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def plain_mapping(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario, as its file has them."""
    found: dict[str, Any] = as_plain(content_of(source))
    return found


def command_line(verb: str, names: Sequence[str], options: Mapping[str, object]) -> str:
    """`forecache recommend quickstart.yaml --seed 1`."""
    words = ["forecache", verb, *names]
    for name, value in options.items():
        if value is True:
            words.append(name)
        elif value not in (None, False):
            values = value if isinstance(value, list | tuple) else [value]
            words += [word for each in values for word in (name, str(each))]
    return shlex.join(words)
