"""The history of the gate's artefact: a line of reason each time that it was replaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..blind.record import git, sha256

ARTEFACT = Path("docs/accuracy/gate.jsonl")
HISTORY = Path("docs/accuracy/history.jsonl")


def history(path: Path = HISTORY) -> list[dict[str, Any]]:
    """All lines, the oldest first; none where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def history_problems(text: str, artefact: bytes, earlier: Sequence[str] = ()) -> list[str]:
    """Why history and artefact don't belong together; none if they do.

    Parameters
    ----------
    text
        The history.
    earlier
        What it was in commits before, in any order.
    """
    lines = [json.loads(line) for line in text.splitlines()]
    problems = [
        f"line {number} gives no reason"
        for number, line in enumerate(lines, start=1)
        if not str(line.get("reason", "")).strip()
    ]
    if any(not text.startswith(before) for before in earlier):
        problems.append("a line that was committed has changed or gone")
    if not lines or lines[-1]["artefact_sha256"] != sha256(artefact):
        problems.append("its last line is not that of the artefact: one was changed by itself")
    return [f"{HISTORY}: {problem}" for problem in problems]


def committed_histories(path: Path = HISTORY) -> list[str]:
    """The history as it was in each commit that changed it; none without a repository."""
    found = git("log", "--format=%H", "--", path.as_posix()) or b""
    contents = (git("show", f"{commit}:./{path.as_posix()}") for commit in found.decode().split())
    return [content.decode() for content in contents if content is not None]
