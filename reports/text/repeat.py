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
    names = _names_of(sources)
    files = NamedFiles(taken=names)
    for name, source in zip(names, sources, strict=True):
        scenarios.append((name, scenario_text(source, files)))
    hashes = texts_sha256(dict(scenarios)) | files.hashes | {SOURCES: source_digest()}
    return Question(
        command_line(verb, names, options),
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
    # Those of a study are attached, and lie beside its results.
    shown = [*question.scenarios, *(() if question.again else question.kept)]
    return {
        "install": f"It takes Linux, Python 3.11 or newer, and forecache {version} as the wheel "
        f"`{wheel}`, which `make wheel` writes to dist/ in a checkout of that version, for "
        "another machine too. No package index has it: ask the authors of this report for either. "
        "In an empty folder with the wheel:",
        "install_lines": install_lines(wheel, extra=extra),
        "kept": _listed([name for name, _ in question.kept]),
        "again": "\n".join(question.again),
        "save": _save_words([name for name, _ in shown], question.too_large),
        "command": question.command,
        "measured": measured,
        "scenarios": shown,
        "rows": [row for row in provenance_rows(provenance.to_dict()) if row[0] not in _TOLD_APART],
        "hashes": [(f"SHA-256 of {name}", digest) for name, digest in question.hashes.items()],
        "bibtex": bibtex(version=version, year=provenance.date[:4]),
    }


def _save_words(names: Sequence[str], too_large: Sequence[str]) -> str:
    """What to do before the command is run; nothing where there is no scenario."""
    if not names:
        return ""
    those = "each file" if len(names) > 1 else "the scenario"
    words = f"Save {those} below as {_listed(names)}"
    if too_large:
        are = "are" if len(too_large) > 1 else "is"
        words += f", with {_listed(too_large)} beside, which {are} too large for this report,"
    return f"{words} and run:"


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
