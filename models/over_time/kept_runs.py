"""Results of runs that are done, kept in a folder: what is asked again need not run again.

A run's file is named by all that its result depends on: the scenario, the content of files that it
names, wherever they lie, the seed, and the model's own sources and tables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from forecache.hwprofiles.files import read_text, write_text_atomic
from forecache.hwprofiles.named_files import with_digests
from forecache.sim.errors import InputError

from ..results.series import Run

_ROOMS = ("forecache.sim", "forecache.hwprofiles", "forecache.models")


class KeptRuns:
    """A folder of results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: can't be created ({error.strerror}).") from None

    def find(self, key: str) -> Run | None:
        """The result of a run; None if it isn't there."""
        file = self._file(key)
        if not file.exists():
            return None
        try:
            kept = json.loads(read_text(file))
            result = kept["result"]
            whole = kept["key"] == key and kept["digest"] == _digest_of(result)
        except (ValueError, KeyError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise InputError(
                f"{file}: is damaged; valid is a result that forecache wrote there: without the "
                "file the run is simulated again."
            )
        return Run.from_dict(result)

    def keep(self, key: str, run: Run) -> None:
        """Write the result of a run, whole or not at all."""
        result = run.to_dict()
        kept = {"key": key, "digest": _digest_of(result), "result": result}
        write_text_atomic(self._file(key), json.dumps(kept) + "\n")

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.json"


def run_key(scenario: BaseModel, *, seed: int, whole: bool) -> str:
    """What the result of a run depends on, as a name.

    Parameters
    ----------
    whole
        Whether series and tables belong to the result.
    """
    digest = hashlib.sha256()
    digest.update(f"{type(scenario).__name__} {seed} {whole} {source_digest()}\n".encode())
    plain = with_digests(scenario.model_dump(mode="json"))
    digest.update(json.dumps(plain, sort_keys=True).encode())
    return digest.hexdigest()[:32]


def _digest_of(result: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Sources and tables of the rooms that a simulation is made of.

    What an older model left is not found under it.
    """
    digest = hashlib.sha256()
    for room in _ROOMS:
        for entry in _entries(resources.files(room)):
            digest.update(entry.read_bytes())
    return digest.hexdigest()


def _entries(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.is_dir():
            yield from _entries(entry)
        elif entry.name.endswith((".py", ".yaml", ".csv", ".c", ".h")):
            yield entry
