"""How to repeat an answer: what was asked, versions, seed, hashes, the command; how to cite it."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import dump_yaml, read_text
from forecache.models.over_time.kept_runs import files_named, source_digest
from forecache.models.results.provenance import Provenance
from forecache.models.scenario.source import content_of
from forecache.sim.native.toolchain import wheel_platform
from forecache.sim.plain import plain as as_plain

from .formats import is_number, plain

TITLE = "forecache: predicting how in-memory key-value engines scale on given hardware"
AUTHORS = "The forecache contributors"
"""As CITATION.cff has them, which is not installed."""

SOURCES = "models and catalogue of forecache"

_TOLD_APART = {"command", "bundle"}
"""Of what made an answer: the command stands above, the bundle's hash below."""


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
        Name and text of each file that these commands need.
    """

    command: str
    scenarios: Sequence[tuple[str, str]]
    hashes: Mapping[str, str] = field(default_factory=dict)
    again: Sequence[str] = ()
    kept: Sequence[tuple[str, str]] = ()

    @property
    def files(self) -> list[tuple[str, str]]:
        """Name and text of all files that are needed, each name once."""
        return list(dict([*self.kept, *self.scenarios]).items())


def asked(
    verb: str, *sources: str | Path | Mapping[str, Any], options: Mapping[str, object]
) -> Question:
    """What a verb was asked about scenarios.

    Parameters
    ----------
    sources
        Files, or mappings of the same shape.
    options
        By their name on the command line; those that are None, False or () are left out.
    """
    scenarios: list[tuple[str, str]] = []
    hashes: dict[str, str] = {}
    for number, source in enumerate(sources, start=1):
        if isinstance(source, Mapping):
            name = f"scenario{number if len(sources) > 1 else ''}.yaml"
            text = dump_yaml(plain_mapping(source))
        else:
            # As it is, remarks too: the hash below is of these bytes.
            name = _fresh(Path(source).name, [known for known, _ in scenarios])
            text = read_text(source)
        scenarios.append((name, text))
        hashes |= hashes_of(source, {}, name=name)
    hashes[SOURCES] = hashes.pop(SOURCES)  # the last one, whatever was read after it
    return Question(command_line(verb, [name for name, _ in scenarios], options), scenarios, hashes)


def hashes_of(
    source: str | Path | Mapping[str, Any],
    files: Mapping[str, Path],
    *,
    name: str | None = None,
) -> dict[str, str]:
    """SHA-256 of a scenario, of the files that it names, of others, and of the models.

    Parameters
    ----------
    files
        The others, files or folders, by name.
    name
        What to call the scenario; its file's own name if left out.
    """
    data = plain_mapping(source)
    if isinstance(source, Mapping):
        found = {name or "scenario.yaml": _sha256(dump_yaml(data).encode())}
    else:
        found = {name or Path(source).name: _sha256(Path(source).read_bytes())}
    found |= {file.name: _sha256(file.read_bytes()) for file in files_named(data)}
    found |= {known: path_sha256(path) for known, path in files.items()}
    return {**found, SOURCES: source_digest()}


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


def _fresh(name: str, known: Sequence[str]) -> str:
    """A name that no earlier file has: two of them may be called alike in two folders."""
    return name if name not in known else f"after-{name}"


def command_line(verb: str, names: Sequence[str], options: Mapping[str, object]) -> str:
    """`forecache recommend quickstart.yaml --seed 1`."""
    words = ["forecache", verb, *names]
    for name, value in options.items():
        if value is True:
            words.append(name)
        elif value not in (None, False, ()):
            words += [name, str(value)]
    return shlex.join(words)


_VENV = "venv"


def wheel_name(version: str, machine: str) -> str:
    """The file that `make wheel` writes for a machine: `forecache-0.1.0-py3-none-….whl`."""
    return f"forecache-{version}-py3-none-{wheel_platform(machine)}.whl"


def install_lines(wheel: str, *, extra: str = "") -> str:
    """Commands after which `forecache` is what made an answer, where its wheel lies."""
    what = f"'./{wheel}[{extra}]'" if extra else f"./{wheel}"
    return (
        f"python3 -m venv {_VENV}\n"
        f"{_VENV}/bin/python -m pip install {what}\n"
        f'export PATH="$PWD/{_VENV}/bin:$PATH"'
    )


def repeat_view(
    provenance: Provenance, question: Question, *, measured: str = "", extra: str = ""
) -> dict[str, Any]:
    """What page and paper say of how to repeat an answer.

    Parameters
    ----------
    measured
        What is to be known where measurements are part of the answer, in sentences.
    extra
        Of forecache, which the command needs.
    """
    version = provenance.forecache_version
    wheel = wheel_name(version, provenance.machine)
    scenarios = " and ".join(name for name, _ in question.scenarios)
    those = "each scenario" if len(question.scenarios) > 1 else "the scenario"
    return {
        "install": f"It takes Linux, Python 3.11 or newer, and forecache {version} as the wheel "
        f"`{wheel}`, which `make wheel` writes to dist/ in a checkout of that version, for "
        "another machine too. No package index has it: ask the authors of this report for either. "
        "In an empty folder with the wheel:",
        "install_lines": install_lines(wheel, extra=extra),
        "kept": _listed([name for name, _ in question.kept]),
        "again": "\n".join(question.again),
        "save": f"Save {those} below as {scenarios} and run:" if scenarios else "",
        "command": question.command,
        "measured": measured,
        "scenarios": list(question.scenarios),
        "rows": [row for row in provenance_rows(provenance.to_dict()) if row[0] not in _TOLD_APART],
        "hashes": [(f"SHA-256 of {name}", digest) for name, digest in question.hashes.items()],
        "bibtex": bibtex(version=version, year=provenance.date[:4]),
    }


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def bibtex(*, version: str, year: str) -> str:
    """The entry of this version for a bibliography."""
    rows = {
        "author": f"{{{AUTHORS}}}",
        "title": f"{{{TITLE}}}",
        "version": version,
        "year": year,
        "note": "Computer software, Apache-2.0",
    }
    fields = "".join(f"  {name:8}= {{{value}}},\n" for name, value in rows.items())
    return f"@software{{forecache,\n{fields}}}"


def provenance_rows(source: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested names and values as labelled texts, one row each."""
    found: list[tuple[str, str]] = []
    for key, value in source.items():
        label = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            found.extend(provenance_rows(value, f"{label} "))
        elif str(key).endswith("_s") and is_number(value):
            found.append((label.removesuffix(" s"), f"{plain(value)} s"))
        else:
            found.append((label, plain(value)))
    return found
