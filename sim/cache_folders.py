"""Where what is slow to make is kept: what nodes can do, fonts.

In the user's cache folder (`XDG_CACHE_HOME`, or `~/.cache`), or in a temporary folder of this user
alone. In a container often the first can't be written. Where nothing can, nothing is kept.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """A folder of this name that can be written; None where there is no place for one."""
    for base in _bases():
        folder = base / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if _can_write(folder):
            return folder
    return None


def prepare() -> None:
    """Tell Matplotlib where to keep what it makes, if its own place can't be written.

    Called before it is imported. An `MPLCONFIGDIR` that the user has set stays, unless it can't be
    written.
    """
    if not _given("MPLCONFIGDIR") and not _can_make(_matplotlib_folder()):
        _set_folder("MPLCONFIGDIR", "matplotlib")


def _bases() -> Iterator[Path]:
    """Folders to try, the user's own first."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        yield Path(named) / "forecache"
    else:
        with suppress(RuntimeError):  # a user without a home
            yield Path.home() / ".cache" / "forecache"
    temporary = _private_folder()
    if temporary is not None:
        yield temporary


def _private_folder() -> Path | None:
    """A temporary folder that only this user can write, the same one in every run.

    What another user may have put there is not taken.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"forecache-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return folder if own and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _given(variable: str) -> bool:
    """Whether the user has named a folder that can be written."""
    named = os.environ.get(variable)
    if not named:
        return False
    if _can_make(Path(named)):
        return True
    warnings.warn(f"{variable}: found {named}, which can't be written; not used", stacklevel=2)
    del os.environ[variable]
    return False


def _set_folder(variable: str, name: str) -> None:
    folder = cache_folder(name)
    if folder is not None:
        os.environ[variable] = str(folder)


def _can_make(folder: Path | None) -> bool:
    """Whether a folder can be written, or made."""
    if folder is None:
        return False
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and _can_write(folder)


def _can_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=True)


def _matplotlib_folder() -> Path | None:
    """Where Matplotlib keeps its list of fonts, unless told otherwise."""
    if named := os.environ.get("XDG_CONFIG_HOME"):
        return Path(named) / "matplotlib"
    try:
        return Path.home() / ".config" / "matplotlib"
    except RuntimeError:
        return None
