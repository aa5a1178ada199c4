"""What to type to install an extra."""

import sys
from pathlib import Path

import pytest

from forecache.sim.installing import install_command


def test_an_installed_forecache_is_called_by_its_name(tmp_path: Path) -> None:
    assert install_command("paper", "dask", root=tmp_path) == "pip install 'forecache[paper,dask]'"
    assert install_command(root=tmp_path) == "pip install forecache"


def test_a_checkout_installs_itself_with_its_own_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert install_command("paper", root=tmp_path) == (
        ".venv/bin/python -m pip install -e '.[paper]'"
    )
    monkeypatch.setattr(sys, "prefix", "/elsewhere")
    assert install_command(root=tmp_path) == "python -m pip install -e ."
