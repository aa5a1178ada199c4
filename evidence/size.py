"""How large the program is: `python -m evidence.size [ROOT]`, of this checkout or another one.

Reads sources only, so that an older state can be measured by a newer script.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .markdown import table

ROOMS = ("forecache", "sim", "hwprofiles", "models", "calibration", "reports")
"""What is installed."""


def sources(root: Path) -> Iterator[tuple[Path, ast.Module, str]]:
    """Every installed Python file: path within the checkout, tree, text."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield path.relative_to(root), ast.parse(text), text


_SMALL = 60
"""Lines of code of a small module."""


def code_lines(tree: ast.Module, text: str) -> int:
    """Lines of a source without blank ones, comments, docstrings and imports."""
    lines = text.splitlines()
    left = {n for n, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr | ast.Import | ast.ImportFrom):
            continue
        # A string by itself says what stands above it.
        if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Constant):
            left -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(left)


def policies_of(root: Path) -> frozenset[str]:
    """Threading policies that the engine profiles of a checkout follow, and that of one thread."""
    found = {"single_thread"}
    for path in (root / "models" / "engines").glob("*.yaml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("policy:"):
                found.add(line.partition(":")[2].split("#")[0].strip().strip("'\""))
    return frozenset(found)


class Counts(NamedTuple):
    """Of the installed package; `small` modules have less than 60 lines of code."""

    lines: int
    modules: int
    small: int
    classes: int


def counts(root: Path) -> Counts:
    """What `tests/evidence/test_size.py` limits."""
    texts = list(sources(root))
    return Counts(
        lines=sum(len(text.splitlines()) for _, _, text in texts),
        modules=len(texts),
        small=sum(code_lines(tree, text) < _SMALL for _, tree, text in texts),
        classes=sum(isinstance(n, ast.ClassDef) for _, tree, _ in texts for n in ast.walk(tree)),
    )


def measured(root: Path) -> dict[str, str]:
    """What the script says of a checkout, by what it is."""
    policies = policies_of(root)
    total, packages, longest = counts(root), Counter[str](), (0, "")
    classes, named = Counter[str](), Counter[str]()
    for path, tree, _ in sources(root):
        packages[path.parent.as_posix()] += 1
        own = path.stem in policies or path.parent.name in policies
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                longest = max(longest, (length, f"{path}, {node.name}"))
            elif isinstance(node, ast.ClassDef):
                classes[node.name] += not node.name.startswith("_")
            elif isinstance(node, ast.Constant) and node.value in policies and not own:
                named[path.as_posix()] += 1
    twice = sorted(name for name, count in classes.items() if count > 1)
    most = ", ".join(f"{name} {count}" for name, count in packages.most_common(5))
    return {
        "lines of Python in the installed package": f"{total.lines:,}",
        f"modules; with less than {_SMALL} lines of code": f"{total.modules}; {total.small}",
        "classes": str(total.classes),
        "packages": str(len(packages)),
        "modules in the largest packages": most,
        "longest function, lines": f"{longest[0]} ({longest[1]})",
        "places that name a policy outside its modules": (f"{named.total()} in {len(named)} files"),
        "public class names that occur more than once": (
            f"{len(twice)}" + (f": {', '.join(twice)}" if twice else "")
        ),
        "wheel, KiB": wheel_size(root),
    }


def wheel_size(root: Path) -> str:
    """Size of the wheel that a copy of the checkout builds."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy"
        # Only what is under version control goes into a wheel.
        subprocess.run(["git", "clone", "-q", "--local", str(root), str(copy)], check=True)
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps"]
        command += ["--no-build-isolation", "-w", scratch, str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            return "could not be built: " + done.stderr.strip().splitlines()[-1]
        return f"{wheels[0].stat().st_size / 1024:,.0f}"


def main() -> None:
    """Print the table."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    print("\n".join(table(("what", root.name), measured(root).items())))


if __name__ == "__main__":
    main()
