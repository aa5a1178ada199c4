"""What the pages say about the tree is true: links lead somewhere, named functions exist."""

import ast
import re
from pathlib import Path

import pytest

from evidence.documents import scenarios as document

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [
        *(*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")),
        ROOT / "calibration" / "validate" / "datasets" / "README.md",
    ]
)
ROOMS = ["sim", "hwprofiles", "models", "calibration", "reports", "forecache", "tests"]

_LINK = re.compile(r"\]\(([^)#\s]+)(#[\w-]+)?\)")
_MODULE_AND_NAME = re.compile(r"`([\w/]+\.py)`,? `([A-Za-z_]+)`")
_PATH = re.compile(r"`([\w./-]+/[\w.-]*)`")


def defined_in(path: Path) -> set[str]:
    """Names a module defines at its top level, imported ones included."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = [match[1] for match in _LINK.finditer(page.read_text(encoding="utf-8"))]
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_exist(page: str) -> None:
    named = {match[1] for match in _PATH.finditer((ROOT / page).read_text(encoding="utf-8"))}
    inside = {path for path in named if path.split("/")[0] in {*ROOMS, "docs", "examples"}}
    assert len(inside) > 10
    assert [path for path in sorted(inside) if not (ROOT / path).exists()] == []


def test_functions_of_the_architecture_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    found = [(match[1], match[2]) for match in _MODULE_AND_NAME.finditer(text)]
    assert len(found) > 15
    modules = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    wrong = []
    for name, function in found:
        holders = [path for path in modules if path.as_posix().endswith(f"/{name}")]
        if not any(function in defined_in(path) for path in holders):
            wrong.append(f"{name}: {function}")
    assert wrong == []


def test_fields_of_a_scenario_are_the_schemas_own() -> None:
    text = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
    assert text == document.page(), "run `make docs`"
    fields = [line.rsplit("|", 2) for line in text.splitlines() if line.startswith("| `")]
    assert len(fields) > 60
    assert [field for field, meaning, _ in fields if not meaning.strip()] == []
