"""How many instructions a core holds that are begun and not finished: its reorder window.

`windows.yaml` has them by core, with their sources.
"""

import re
from importlib import resources
from pathlib import Path

from pydantic import model_validator

from .files import parse, read_yaml
from .quantity import Quantity, Source
from .record import Record


class _Core(Record):
    known_as: str
    window: Quantity


class _Windows(Record):
    """The file."""

    sources: dict[str, Source]
    cores: list[_Core]
    other: Quantity

    @model_validator(mode="after")
    def _check(self) -> "_Windows":
        for core in self.cores:
            if core.window.source is not None and core.window.source not in self.sources:
                raise ValueError(f"a source listed in this file, not {core.window.source}")
        return self


_FILE = Path(str(resources.files(__package__) / "windows.yaml"))
_WINDOWS = parse(_Windows, read_yaml(_FILE), file=_FILE)

OTHER_CORES = _WINDOWS.other
"""What is assumed of cores with other names."""

_CAPTURED = re.compile(r"captured-.*?(\d+-\d+)-\d+cpus")


def reorder_window(microarchitecture: str, host_id: str = "") -> Quantity:
    """Instructions in flight of a core.

    Parameters
    ----------
    microarchitecture
        As a host's profile calls it: `Neoverse V2, CMN-700`, say.
    host_id
        Of a captured host, whose profile knows no more than `AMD EPYC`; family and model of its CPU
        are part of it.
    """
    captured = _CAPTURED.fullmatch(host_id)
    name = f"{microarchitecture} {captured[1]}" if captured else microarchitecture
    found = (core.window for core in _WINDOWS.cores if re.search(core.known_as, name))
    return next(found, OTHER_CORES)
