"""Running the command line the way a user does."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def forecache(checkout: Path) -> Run:
    """Run `python -m forecache ARGUMENTS` from the root of the checkout, as a process."""

    def run(
        *arguments: str | Path, cwd: Path = checkout, timeout_s: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "forecache", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    return run
