"""Rooms import downward only, declared packages only, and each module under one name."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import forecache

ROOT = Path(__file__).resolve().parent.parent
# From the ground up; a room may use those before it.
ROOMS = ["sim", "hwprofiles", "models", "calibration", "reports"]
ORDER = {room: number for number, room in enumerate(ROOMS)}
# Inside a room likewise: a package may use those before it.
PACKAGES = {
    "models": [
        "node",
        "scenario",
        "layouts",
        "prices",
        "results",
        "engines",
        "memory",
        "footprint",
        "step_times",
        "prediction",
        "breakdown",
        "advice",
        "cost",
        "plan",
        "over_time",
        "large_sweeps",
    ],
    "models.over_time": [
        "recorder",
        "caching",
        "kept_runs",
        "cluster",
        "node_life",
        "large_commands",
        "overcommit",
        "serverless",
        "runs",
        "simulate_scenario",
    ],
    "calibration": [
        "bundle",
        "fit",
        "drive",
        "observe",
        "doctor",
        "today",
        "check",
        "validate",
    ],
    "reports": [
        "study_answer",
        "tidy",
        "text",
        "document",
        "figures",
        "builders",
        "sparklines",
        "terminal",
        "page",
        "paper",
        "notebook",
        "files",
        "prometheus",
        "explore",
        "study",
    ],
}
# Import name of a declared package where the two differ.
IMPORT_NAMES = {"pyyaml": "yaml", "ipython": "IPython"}


def modules_of(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(source: str, *, package: str) -> Iterator[tuple[int, str]]:
    """Every module a source imports, as (line, absolute dotted name).

    Found anywhere in the file: inside functions, under TYPE_CHECKING, and as the constant argument
    of `import_module` or `__import__`. `from a import b` yields `a.b`, because b may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                kept = parts[: len(parts) - (node.level - 1)]
                base = ".".join([*kept, base] if base else kept)
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            argument = node.args[0]
            if name in ("import_module", "__import__") and isinstance(argument, ast.Constant):
                yield node.lineno, str(argument.value)


def package_of(path: Path, folder: str) -> str:
    """Dotted name of the package a module stands in."""
    inside = path.relative_to(ROOT / folder).parent.parts
    return ".".join(["forecache", *([] if folder == "forecache" else [folder]), *inside])


def violations(source: str, *, room: str, package: str) -> list[str]:
    """What a module of `room` imports though it must not."""
    found = []
    for line, name in imports(source, package=package):
        first, _, rest = name.partition(".")
        if first in ORDER:
            found.append(f"line {line}: {name}: say forecache.{name}, or there are two of it")
        elif first == "forecache" and rest != "__version__":
            target = rest.split(".")[0]
            if target not in ORDER:
                found.append(f"line {line}: {name}: a room must not know the command line")
            elif ORDER[target] > ORDER[room]:
                found.append(f"line {line}: {name}: {room} stands below {target}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_depend_downward_only(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} {violation}"
        for path in modules_of(room)
        for violation in violations(
            path.read_text(encoding="utf-8"), room=room, package=package_of(path, room)
        )
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        "from forecache.reports import study",
        "import forecache.calibration.bundle.bundle as b",
        "def f():\n    from forecache.calibration.fit.fit import calibrate",
        "from ..calibration import bundle",
        "from .. import reports",
        "from ...calibration import bundle",
        "import importlib\nimportlib.import_module('forecache.reports.page')",
        "from forecache import simulate",
        "from forecache.cli import main",
        "from sim import calendar",
        "import hwprofiles.files",
    ],
)
def test_the_check_sees_every_way_up(source: str) -> None:
    depth = 1 + source.count("...")
    package = "forecache.models" if depth == 1 else "forecache.models.engines"
    assert len(violations(source, room="models", package=package)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "from forecache.sim.calendar import new_calendar",
        "from forecache.hwprofiles import load_host",
        "from . import stages",
        "from .stages import read",
        "from forecache import __version__",
        "import numpy as np",
    ],
)
def test_the_check_lets_the_ways_down_pass(source: str) -> None:
    assert violations(source, room="models", package="forecache.models") == []


def inner_violations(source: str, *, room: str, package: str, module: str) -> list[str]:
    """What a module of the part `module` of a room imports though it must not."""
    order = {name: number for number, name in enumerate(PACKAGES[room])}
    found = []
    for line, name in imports(source, package=package):
        inside = name.removeprefix(f"forecache.{room}.").split(".")[0]
        if name.startswith(f"forecache.{room}.") and order[inside] > order[module]:
            found.append(f"line {line}: {name}: {module} stands below {inside}")
    return found


@pytest.mark.parametrize("room", PACKAGES)
def test_packages_of_a_room_depend_downward_only(room: str) -> None:
    folder = room.replace(".", "/")
    wrong = []
    seen = set()
    for path in modules_of(folder):
        inside = path.relative_to(ROOT / folder).with_suffix("").parts
        if inside == ("__init__",):
            continue
        seen.add(inside[0])
        wrong += [
            f"{path.relative_to(ROOT)} {violation}"
            for violation in inner_violations(
                path.read_text(encoding="utf-8"),
                room=room,
                package=package_of(path, room.split(".")[0]),
                module=inside[0],
            )
        ]
    assert wrong == []
    assert seen == set(PACKAGES[room])


def test_the_check_sees_a_way_up_inside_a_room() -> None:
    for source, package in (
        ("from ..advice import recommend", "forecache.models.memory"),
        ("from forecache.models.cost.bill import bill", "forecache.models.memory"),
    ):
        assert len(inner_violations(source, room="models", package=package, module="memory")) == 1


@pytest.mark.parametrize("room", ["models", "calibration"])
def test_a_room_has_no_module_outside_its_packages(room: str) -> None:
    assert [path.name for path in (ROOT / room).glob("*.py")] == ["__init__.py"]


def test_every_import_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    # What runs may only need what an installation brings; extras but `dev` are asked for by name.
    declared = list(project["dependencies"])
    for extra, packages in optional.items():
        declared += packages if extra != "dev" else []
    names = {_requirement_name(requirement) for requirement in declared}
    allowed = {IMPORT_NAMES.get(name, name) for name in names}
    wrong = []
    for folder in ["forecache", *ROOMS]:
        for path in modules_of(folder):
            source = path.read_text(encoding="utf-8")
            for line, name in imports(source, package=package_of(path, folder)):
                first = name.split(".")[0]
                if first not in sys.stdlib_module_names | allowed | {"forecache"}:
                    wrong.append(f"{path.relative_to(ROOT)} line {line}: {first}")
    assert wrong == []


def _requirement_name(requirement: str) -> str:
    name = requirement.split(";")[0]
    for sign in "<>=!~[ ":
        name = name.split(sign)[0]
    return name.lower().replace("-", "_")


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert project["version"] == forecache.__version__
    assert f"## [{forecache.__version__}]" in changelog


def test_every_room_says_what_it_is() -> None:
    packages = [f"{room.replace('.', '/')}/{name}" for room in PACKAGES for name in PACKAGES[room]]
    packages = [name for name in packages if (ROOT / name).is_dir()]
    for folder in ["forecache", *ROOMS, *packages]:
        source = (ROOT / folder / "__init__.py").read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(source)), folder


def test_public_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for room in ["forecache", *ROOMS]:
        for path in modules_of(room):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
