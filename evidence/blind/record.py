"""The record of blind rounds: a line for each step, only ever appended to."""

from __future__ import annotations

import datetime
import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROUNDS = Path("evidence/blind/rounds")
RECORD = ROUNDS / "record.jsonl"

SEALED, PREDICTED, SCORED = "sealed", "predicted", "scored"
"""The steps of a round, in their order."""

_ROOMS = ("sim", "hwprofiles", "models", "calibration")
_SUFFIXES = {".py", ".c", ".h", ".yaml", ".json"}


def steps(record: Path | None = None) -> list[dict[str, Any]]:
    """All lines of the record."""
    path = record or RECORD
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def step_of(name: str, step: str) -> dict[str, Any] | None:
    """A step of a round, or None if it was not taken."""
    own = [each for each in steps() if (each["round"], each["step"]) == (name, step)]
    return own[-1] if own else None


def append(name: str, step: str, facts: Mapping[str, Any]) -> None:
    """Record a step, with today's date."""
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    line = {"round": name, "step": step, "date": today(), **facts}
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def today() -> str:
    """The date in UTC, such as 2026-11-23."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def sha256(data: bytes) -> str:
    """In hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def code_sha256(top: Path = Path()) -> str:
    """Hash of all that predictions are computed by: code, profiles, catalogue, datasets."""
    digest = hashlib.sha256()
    files = (path for room in _ROOMS for path in (top / room).rglob("*"))
    for path in sorted(path for path in files if path.suffix in _SUFFIXES):
        digest.update(f"{path.relative_to(top).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def committed(path: Path) -> bool:
    """Whether a file is in the last commit, as it is here."""
    return path.is_file() and git("show", f"HEAD:./{path.as_posix()}") == path.read_bytes()


def git(*arguments: str) -> bytes | None:
    """What git prints; None if there is no git, no repository, or no such object."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
