"""Datasets that `forecache validate` does not predict, since they are no loads on a node.

    python -m evidence.validation memory-footprint

`memory.py` predicts used memory, `slot_migration.py` how long slots take to move, with `dip.py` for
what is left of the rate meanwhile, and `set_operations.py` how long large commands last.
`counters.py` adds to a validation of node loads what a profiler counted over whole runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from forecache.calibration.validate.dataset import Dataset, read_dataset
from forecache.sim.errors import InputError

from .answer import DatasetValidation
from .memory import is_of_memory, validate_memory
from .set_operations import is_large_commands, validate_large_commands
from .slot_migration import is_migration, validate_migrations

KINDS: tuple[tuple[Callable[[Dataset], bool], Callable[[Dataset, str], DatasetValidation]], ...] = (
    (is_migration, validate_migrations),
    (is_of_memory, validate_memory),
    (is_large_commands, validate_large_commands),
)
"""Which datasets are predicted by which function."""


def validate(path: str | Path) -> DatasetValidation:
    """Predict every point of a dataset; only calibration points are fitted.

    Parameters
    ----------
    path
        Id of a shipped dataset, or path of a file.

    Raises
    ------
    InputError
        The dataset can't be read, or is of loads on a node.
    """
    dataset, file = read_dataset(path)
    for is_one, predicted in KINDS:
        if is_one(dataset):
            return predicted(dataset, file)
    raise InputError(
        f"{file}: found loads on a node, which `forecache validate` predicts; valid is a dataset "
        "of memory, slot migrations or large commands."
    )
