"""The commands of the how-tos, typed as the pages show them.

Every command is parsed, with the files that its page names. It is also run, unless it measures or
searches for longer than a test may; what runs it then stands in `ELSEWHERE`.
"""

import gzip
import re
import shlex
import shutil
from fnmatch import fnmatch
from pathlib import Path

import pytest

from evidence.documents.site import navigation
from forecache.commands import all_commands
from tests.cli.conftest import Run
from tests.models.conftest import short_runs as short_runs

ROOT = Path(__file__).resolve().parents[2]
NAMED = {str(command.name): command for command in all_commands()}

ELSEWHERE = {
    "profile *": "make study in .ci/run",
    "study *": "make study in .ci/run",
    "observe --host *": "make study in .ci/run, tests/calibration/test_observe.py",
    "observe --out *": "tests/calibration/profilers",
    "calibrate *": "make study in .ci/run, tests/calibration/test_calibrate.py",
    "check * --info-before *": "tests/calibration/check, tests/cli/test_check.py",
    "check * --run *": "tests/cli/test_check.py, against a live engine",
    "plan examples/*": "tests/models/test_plan.py, with short runs",
    "plan requirements.yaml *": "tests/cli/test_plan.py",
    "plan --from-info *": "tests/cli/test_plan.py",
    "plan --from-bill export.csv.gz *": "tests/cli/test_plan.py",
    "plan --from-bill * requirements.yaml *": "tests/cli/test_plan.py",
    "plan --from-bill --from-info *": "tests/cli/test_plan.py",
    "explore *": "tests/reports/test_explore_browser.py",
    "report study *": "tests/reports/test_export.py, of a made study",
}
"""Commands that are only parsed here, and what runs the like of them."""

_NODE = ROOT / "examples" / "info" / "node-1.txt"
FILES = {
    "scenario.yaml": ROOT / "examples" / "check.yaml",
    "result.json": ROOT / "examples" / "check" / "measured.yaml",
    "a.csv": ROOT / "examples" / "check" / "measured.yaml",
    "b.csv": ROOT / "examples" / "check" / "measured.yaml",
    "node-1.txt": _NODE,
    "node-2.txt": _NODE,
    "export.csv": ROOT / "examples" / "bill" / "export.csv",
    "metrics.csv": ROOT / "examples" / "bill" / "metrics.csv",
    "requirements.yaml": ROOT / "examples" / "plan-graviton.yaml",
}
"""What pages take as given, by the names that they use."""


def pages() -> list[str]:
    """The how-tos that docs/README.md lists, and its first steps."""
    groups = {name: items for group in navigation() for name, items in group.items()}
    listed = [path for item in groups["How-to"] for path in item.values()]
    return ["docs/first-steps.md", *listed]


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of each fenced block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """Every command that begins a line of a shell block, without its remark."""
    found = []
    for language, text in blocks(page):
        if language in ("", "sh", "console"):
            for line in text.replace("\\\n", " ").splitlines():
                typed = line.removeprefix("$ ")
                if typed.startswith("forecache "):
                    found.append(" ".join(shlex.split(typed, comments=True)))
    return list(dict.fromkeys(found))


def runs_elsewhere(command: str) -> bool:
    rest = command.removeprefix("forecache ")
    return any(fnmatch(rest, pattern) for pattern in ELSEWHERE)


ALL = [(page, command) for page in pages() for command in commands(page)]
RUN = [(page, command) for page, command in ALL if not runs_elsewhere(command)]


@pytest.fixture
def desk(tmp_path: Path, page: str) -> Path:
    """A folder with the examples, the files that pages name, and those that this one shows."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, source in FILES.items():
        shutil.copy(source, tmp_path / name)
    (tmp_path / "export.csv.gz").write_bytes(gzip.compress(FILES["export.csv"].read_bytes()))
    for language, text in blocks(page):
        if language == "yaml" and (name := re.match(r"# ([\w-]+\.yaml)\n", text)):
            (tmp_path / name[1]).write_text(text, encoding="utf-8")
    return tmp_path


def arguments(command: str, folder: Path) -> list[str]:
    """What a shell hands over: names for patterns, without what it does with the output itself."""
    words = shlex.split(command.partition(" > ")[0])[1:]
    found = []
    for word in words:
        names = sorted(path.name for path in folder.glob(word)) if "*" in word else []
        found += names or [word]
    return found


def test_there_are_howtos_and_most_have_commands() -> None:
    having = {page for page, _ in ALL}
    assert len(pages()) >= 7
    assert {"docs/first-steps.md", "docs/check.md", "docs/plan.md"} <= having
    assert len(RUN) >= 14


def test_what_runs_elsewhere_is_still_told() -> None:
    told = [command.removeprefix("forecache ") for _, command in ALL]
    unused = [p for p in ELSEWHERE if not any(fnmatch(command, p) for command in told)]
    assert unused == ["study *"]


@pytest.mark.parametrize(("page", "command"), ALL)
def test_a_command_is_one(page: str, command: str, desk: Path) -> None:
    assert (ROOT / page).is_file()
    verb, *rest = arguments(command, desk)
    with NAMED[verb].make_context(verb, rest) as context:
        assert not context.args


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize(("page", "command"), RUN)
def test_a_command_does_what_it_is_for(
    page: str, command: str, desk: Path, forecache: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (ROOT / page).is_file()
    monkeypatch.chdir(desk)
    ended = forecache(*arguments(command, desk))
    # 6: measured outside of the interval, which the pages about that show.
    assert ended.returncode in ((0, 6) if " check " in command else (0,)), ended.stderr
    assert ended.stdout


def test_the_readme_shows_what_its_command_prints(forecache: Run) -> None:
    """But for its width: the README's lines are a little longer than a terminal's."""
    [shown] = [text for language, text in blocks("README.md") if language == "console"]
    typed, _, printed = shown.partition("\n")
    ended = forecache(*shlex.split(typed.removeprefix("$ forecache ")), COLUMNS="76")
    words = printed.split()
    assert ended.stdout.split()[: len(words)] == words
