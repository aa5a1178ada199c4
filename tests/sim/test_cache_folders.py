"""Nothing needs to write beside the package or in a home."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from forecache.sim import cache_folders

NOBODY = 65_534

PROBE = """
import os
from forecache.sim.cache_folders import cache_folder
print(os.environ.get("MPLCONFIGDIR"), cache_folder("surrogates"))
"""


def test_a_folder_that_others_may_write_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_folders.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    folder = cache_folders.cache_folder("surrogates")
    private = tmp_path / f"forecache-{os.geteuid()}"
    assert folder == private / "surrogates"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    private.chmod(0o777)
    assert cache_folders.cache_folder("surrogates") is None


def _as_nobody(arguments: list[str], *, tmp: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run as a user who may read everything and owns nothing but `tmp`."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("only root can become another user, with setpriv")
    # An interpreter in root's home is read by this right; it doesn't help to write.
    rights = "-all,+dac_read_search"
    command = [
        *(setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
        *(f"--inh-caps={rights}", f"--ambient-caps={rights}"),
        *arguments,
    ]
    environment = {"HOME": "/", "TMPDIR": str(tmp), "PATH": os.environ["PATH"]}
    return subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture
def package(tmp_path: Path, checkout: Path) -> Path:
    """The rooms that the probe needs, in a folder that only root can write."""
    root = tmp_path / "package"
    for room in ("forecache", "sim"):
        shutil.copytree(checkout / room, root / room, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_what_is_kept_goes_to_a_private_folder(tmp_path: Path, package: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    ended = _as_nobody([sys.executable, "-c", PROBE], tmp=own, cwd=package)
    assert ended.returncode == 0, ended.stderr
    private = own / f"forecache-{NOBODY}"
    assert ended.stdout.splitlines() == [f"{private / 'matplotlib'} {private / 'surrogates'}"]


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path, package: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    # Python itself finds no temporary folder if none can be written.
    probe = "import tempfile; tempfile.tempdir = 'closed'" + PROBE
    ended = _as_nobody([sys.executable, "-c", probe], tmp=closed, cwd=package)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["None None"]
