"""What leaves the program: JSON on standard output and files that are whole or absent."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forecache.sim.errors import InputError
from forecache.sim.plain import plain


def to_json(value: Any) -> str:
    """Return `value` as JSON text that every parser takes (no NaN, no Infinity)."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)


def check_file_target(path: Path, *, option: str = "--out") -> Path:
    """Refuse a file that could not be written, before any work is done.

    Raises
    ------
    InputError
        When the parent folder is missing, is no folder or can't be written, or when `path` is
        itself a folder.
    """
    _check_parent(path, option)
    if path.is_dir():
        raise InputError(f"{option} {path}: this is a folder, a file name is needed")
    return path


def check_report_target(
    path: Path, *, option: str = "--report", endings: tuple[str, ...] = (".html", ".pdf")
) -> Path:
    """Refuse a report that could not be written, before any work is done.

    Raises
    ------
    InputError
        When its name has another ending, what makes PDF is not installed, or as
        `check_file_target`.
    """
    suffix = path.suffix.lower()
    if suffix not in endings:
        valid = " or ".join(endings)
        raise InputError(f"{option} {path}: found the ending {suffix!r}; valid is {valid}.")
    if suffix == ".pdf":
        from forecache.reports.paper import check_typst

        check_typst(f"{option} {path}")
    return check_file_target(path, option=option)


def check_folder_target(path: Path, *, option: str = "--out", must_be_new: bool = False) -> Path:
    """Refuse a folder that could not be written, before any work is done.

    Parameters
    ----------
    path
        The folder to be.
    option
        The option that named it, for the message.
    must_be_new
        Refuse a folder that already holds something.

    Raises
    ------
    InputError
        When the parent folder is missing, is no folder or can't be written, when `path` is a
        file, or, with `must_be_new`, when it holds something.
    """
    _check_parent(path, option)
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {path}: this is a file, a folder name is needed")
    if must_be_new and path.is_dir() and any(path.iterdir()):
        raise InputError(
            f"{option} {path}: the folder exists and is not empty; name a new one or remove it"
        )
    return path


def write_folder(path: Path, files: Mapping[str, str]) -> None:
    """Write a folder that is there with all its files or not at all.

    Parameters
    ----------
    path
        A folder that does not exist or is empty.
    files
        Texts by path inside it; those that end in .sh may be executed.

    Raises
    ------
    InputError
        When it can't be written.
    """
    temporary = Path(tempfile.mkdtemp(dir=path.absolute().parent, prefix=f".{path.name}."))
    try:
        for name, text in files.items():
            target = temporary / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="\n")
            if name.endswith(".sh"):
                target.chmod(0o755)
        temporary.chmod(0o755)
        temporary.replace(path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise InputError(f"{path}: can't be written: {error.strerror or error}.") from None


def _check_parent(path: Path, option: str) -> None:
    parent = path.absolute().parent
    if not parent.exists():
        raise InputError(f"{option} {path}: the folder {parent} does not exist; create it first")
    if not parent.is_dir():
        raise InputError(f"{option} {path}: {parent} is a file, not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{option} {path}: the folder {parent} can't be written to")
