"""How to install what an answer needs, in words that fit this installation."""

import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]


def install_command(*extras: str, root: Path = _ROOT) -> str:
    """The command that adds extras of forecache, or forecache itself.

    In a checkout, where `root` holds pyproject.toml, it is to be typed there, with the Python that
    runs: a shell may have another one first on its PATH.
    """
    listed = f"[{','.join(extras)}]" if extras else ""
    if not (root / "pyproject.toml").is_file():
        return f"pip install 'forecache{listed}'" if extras else "pip install forecache"
    here = Path(sys.prefix)
    inside = here.is_relative_to(root)
    python = f"{here.relative_to(root)}/bin/python" if inside else "python"
    return f"{python} -m pip install -e '.{listed}'" if extras else f"{python} -m pip install -e ."
