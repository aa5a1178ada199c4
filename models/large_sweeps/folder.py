"""The folder of a sweep: Parquet files, each whole or not there, and what they belong to.

`part-00012.parquet` has the points of batch 12. `_sweep.json` says which sweep it is, and what its
results depend on; readers of Parquet pass over names that begin with `_` or `.`.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from forecache.hwprofiles.files import read_text, write_bytes_atomic, write_text_atomic
from forecache.sim.errors import InputError
from forecache.sim.installing import install_command

if TYPE_CHECKING:
    import pyarrow

MANIFEST = "_sweep.json"
_LOCK = ".lock"
_KEY = b"forecache.sweep"


def load_pyarrow() -> Any:
    """The package that writes Parquet."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"Parquet files need the package pyarrow; `{install_command('parquet')}` installs it."
        ) from None
    return pyarrow


class SweepFolder:
    """Where the parts of one sweep are kept.

    Parameters
    ----------
    folder
        It is created once something is written.
    depends_on
        What the results depend on, by name.
    told
        What the manifest says besides.

    Raises
    ------
    InputError
        The folder holds something else, or another sweep.
    """

    def __init__(self, folder: Path, depends_on: Mapping[str, Any], told: Mapping[str, Any]):
        self.folder = folder
        self.depends_on = dict(depends_on)
        self._told = told
        self._parquet = load_pyarrow().parquet
        self.key = hashlib.sha256(_canonical(self.depends_on)).hexdigest()

    @contextmanager
    def opened(self) -> Iterator[set[int]]:
        """The numbers of the batches that are there; nobody else may write while the block runs.

        Raises
        ------
        InputError
            The folder can't be made, holds something else or another sweep, a part is damaged, or
            another process writes there.
        """
        self._check_known()
        lock = self._locked()
        try:
            self._check_known()
            for left in self.folder.glob(".part-*"):
                left.unlink(missing_ok=True)  # half of a file, of a process that was killed
            if not self._manifest.exists():
                self._write_manifest()
            yield self._parts()
        finally:
            lock.close()

    def _locked(self) -> TextIO:
        """The open file that keeps others from writing into the folder, which is made."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / _LOCK).open("w")
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{self.folder}: can't be written: {reason}.") from None
        try:
            # A lock of this kind is not inherited: workers that outlive this process by a moment
            # don't keep it.
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise InputError(f"{self.folder}: another sweep writes there now.") from None
        return lock

    @property
    def _manifest(self) -> Path:
        return self.folder / MANIFEST

    def file(self, batch: int) -> Path:
        """The file of a batch."""
        return self.folder / f"part-{batch:05d}.parquet"

    def write(self, batch: int, table: pyarrow.Table) -> None:
        """Write the rows of a batch, whole or not at all.

        The same rows give the same bytes with one version of pyarrow.
        """
        own = {_KEY: self.key.encode(), b"forecache.batch": str(batch).encode()}
        stream = io.BytesIO()
        self._parquet.write_table(table.replace_schema_metadata(own), stream, compression="zstd")
        write_bytes_atomic(self.file(batch), stream.getvalue())
        _sync(self.folder)

    def count(self, column: str, values: Collection[str]) -> int:
        """Rows of all files whose cell in a column is one of these texts."""
        found = 0
        for path in sorted(self.folder.glob("part-*.parquet")):
            cells = self._parquet.read_table(path, columns=[column]).column(column)
            found += sum(cell in values for cell in cells.to_pylist())
        return found

    def _write_manifest(self) -> None:
        content = {"key": self.key, "depends_on": self.depends_on, **self._told}
        text = json.dumps(content, indent=1, ensure_ascii=False, default=str)
        write_text_atomic(self._manifest, text + "\n")
        _sync(self.folder)

    def _check_known(self) -> None:
        """Refuse a folder of something else."""
        folder = self.folder
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; valid is a folder, or a new name.")
        if not self._manifest.exists():
            if folder.is_dir() and any(path.name != _LOCK for path in folder.iterdir()):
                raise InputError(
                    f"{folder}: holds something else than a sweep; valid is an empty folder, a new "
                    "name, or the folder of the same sweep."
                )
            return
        try:
            known = json.loads(read_text(self._manifest))
            there, key = dict(known["depends_on"]), known["key"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(
                f"{self._manifest}: is damaged; valid is what forecache wrote there."
            ) from None
        if key == self.key:
            return
        other = [
            _difference(name, there.get(name), self.depends_on.get(name))
            for name in [*self.depends_on, *(name for name in there if name not in self.depends_on)]
            if there.get(name) != self.depends_on.get(name)
        ]
        raise InputError(
            f"{folder}: holds a sweep with {' and '.join(other) or 'another key'}; valid is the "
            "same to go on with it, or another folder."
        )

    def _parts(self) -> set[int]:
        """Batches whose files are there and belong to this sweep."""
        found = set()
        for path in self.folder.glob("part-*.parquet"):
            try:
                number = int(path.stem.removeprefix("part-"))
                own = (self._parquet.read_schema(path).metadata or {}).get(_KEY)
            except (ValueError, OSError):  # what pyarrow says of damaged files is among them
                own = None
            if own != self.key.encode():
                raise InputError(
                    f"{path}: is damaged or of another sweep; without the file its points are "
                    "answered again."
                )
            found.add(number)
        return found


def batch_of(folder: Path) -> int | None:
    """The points of a batch of the sweep that a folder holds; None where there is none to read."""
    try:
        found = json.loads(read_text(folder / MANIFEST))["depends_on"]["batch"]
    except (InputError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, int) and found > 0 else None


_DIGESTS = {
    "scenario": "another scenario",
    "files": "other content of the files that the scenario names",
    "sources": "another version of forecache",
}


def _difference(name: str, there: Any, here: Any) -> str:
    return _DIGESTS.get(name, f"{name} {there} where {here} is asked for")


def _canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True).encode()


def _sync(folder: Path) -> None:
    """Have the names of a folder's files on disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
