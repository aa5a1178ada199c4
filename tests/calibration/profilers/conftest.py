"""Programs of the tests in place of the real perf and vtune."""

from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def fake_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """perf and vtune are those of the tests."""
    monkeypatch.setenv("PATH", f"{PROGRAMS}:/usr/bin:/bin")
