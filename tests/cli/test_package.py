"""The package: quick to import, and the same installed, editable and from the checkout's root."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import forecache

PROBE = """
import json, forecache, forecache.sim.errors, forecache.commands, forecache.models
print(json.dumps([m.__file__ for m in
    (forecache, forecache.sim.errors, forecache.commands, forecache.models)]))
"""
HEAVY = ("numpy", "scipy", "pydantic", "matplotlib", "simpy", "yaml", "rich")


def python(code: str, *arguments: str, cwd: Path, path: Path | None = None) -> str:
    """Run code in a new interpreter and return what it prints."""
    environment = {**os.environ}
    environment.pop("PYTHONPATH", None)
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("module", ["forecache", "forecache.cli"])
def test_import_brings_nothing_heavy(module: str, checkout: Path) -> None:
    code = f"import sys, {module}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    assert python(code, cwd=checkout).strip() == ""


def test_import_is_quick(checkout: Path) -> None:
    code = (
        "import time; start = time.process_time(); import forecache.cli;"
        "print(time.process_time() - start)"
    )
    # The least of three: the others may have waited for a disk.
    assert min(float(python(code, cwd=checkout)) for _ in range(3)) < 0.3


LOADED = """
import contextlib, io, sys

if sys.argv[1] == "recommend":
    from forecache.models.prediction import predict
    long = predict.predict_cases
    short = {"draws": 2, "replications": 2, "requests": 2_000}
    predict.predict_cases = lambda *cases, **how: long(*cases, **how | short)
from forecache import cli

with contextlib.redirect_stdout(io.StringIO()) as printed:
    assert cli.main(sys.argv[1:]) == 0
assert printed.getvalue()
print(*(name for name in sys.modules if name.startswith("forecache.")))
"""
NODE = """
host: graviton3-c7g.4xlarge
engine: valkey
engine_version: "9.1"
io_threads: {sweep: [1, 4]}
workload: {clients: 50, mix: {get: 0.8, set: 0.2}, keys: 3_000_000, value_bytes: 512}
"""


@pytest.mark.parametrize(
    ("verb", "most", "not_needed"),
    [
        ("--help", 13, ("commands", "printing", "hwprofiles", "reports")),
        ("memory", 80, ("models.node.simulate", "models.prediction", "models.plan")),
        ("recommend", 145, ("hwprofiles.capture", "models.plan", "models.cost", "calibration")),
    ],
)
def test_a_verb_loads_what_it_needs(
    verb: str, most: int, not_needed: tuple[str, ...], checkout: Path, tmp_path: Path
) -> None:
    (tmp_path / "node.yaml").write_text(NODE, encoding="utf-8")
    given = [] if verb == "--help" else [str(tmp_path / "node.yaml")]
    loaded = python(LOADED, verb, *given, cwd=checkout).split()
    found = [name for name in loaded for part in not_needed if _inside(name, f"forecache.{part}")]
    assert found == []
    assert len(loaded) <= most


def _inside(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def test_verbs_are_public_names() -> None:
    for name in forecache.__all__:
        assert getattr(forecache, name) is not None
        assert name in dir(forecache)
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        _ = forecache.simulat


def test_verbs_and_commands_have_the_same_names() -> None:
    from forecache.commands import all_commands

    assert {command.name for command in all_commands()} == set(forecache.__all__) - {"__version__"}


def test_from_the_root_the_checkout_is_used(checkout: Path) -> None:
    files = json.loads(python(PROBE, cwd=checkout))
    assert files == [
        str(checkout / name)
        for name in (
            "forecache/__init__.py",
            "sim/errors.py",
            "forecache/commands.py",
            "models/__init__.py",
        )
    ]


@pytest.fixture(scope="module")
def installed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel-style installation of the checkout, made without the network."""
    target = tmp_path_factory.mktemp("installed")
    work = tmp_path_factory.mktemp("build")
    probe = subprocess.run(
        [sys.executable, "-c", "import setuptools; print(setuptools.__version__)"],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode != 0 or int(probe.stdout.split(".")[0]) < 77:
        pytest.skip("setuptools 77 or newer is needed to build without the network")
    # Built from a copy, so that neither a stale build/ nor a parallel build gets in the way.
    for name in ("forecache", "sim", "hwprofiles", "models", "calibration", "reports"):
        _copy_sources(checkout / name, work / name)
    for name in ("setup.py", "build_backend.py", "pyproject.toml", "README.md", "LICENSE"):
        (work / name).write_bytes((checkout / name).read_bytes())
    flags = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    flags.append("--disable-pip-version-check")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *flags, "--target", str(target), str(work)],
        cwd=work,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def _copy_sources(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def test_installed_it_stands_alone(installed: Path, tmp_path: Path) -> None:
    files = json.loads(python(PROBE, cwd=tmp_path, path=installed))
    assert all(Path(file).is_relative_to(installed / "forecache") for file in files)


def test_installed_but_started_from_the_root_the_checkout_is_used(
    installed: Path, checkout: Path
) -> None:
    files = json.loads(python(PROBE, cwd=checkout, path=installed))
    assert all(Path(file).is_relative_to(checkout) for file in files)


def test_installed_it_holds_every_file_of_the_rooms(installed: Path, checkout: Path) -> None:
    """Modules, catalogue entries, templates: what git has, the installation has."""
    listed = subprocess.run(
        ["git", "ls-files", "forecache", "sim", "hwprofiles", "models", "calibration", "reports"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    missing = []
    for name in listed.stdout.split():
        inside = name if name.startswith("forecache/") else f"forecache/{name}"
        if (checkout / name).exists() and not (installed / inside).exists():
            missing.append(name)
    assert missing == []


def test_installed_command_runs(installed: Path, tmp_path: Path) -> None:
    script = installed / "bin" / "forecache"
    done = subprocess.run(
        [sys.executable, str(script), "--version"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == f"forecache {forecache.__version__}", done.stderr
