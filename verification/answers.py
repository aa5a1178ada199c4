"""What the command line answers, kept and compared: nothing may change but what is meant to.

`python -m verification.answers take FILE` runs every example and `RANDOM` scenarios of every kind,
and keeps their JSON, and the text of examples on a terminal. `python -m verification.answers
compare FILE` runs the same again, asks for equal values to the last bit, and prints what differs;
each takes some minutes on two idle cores. The file is of one machine: another one may round
differently. It holds the random scenarios themselves, so that a change to
`consistency/scenarios.py` does not change what is asked.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import itertools
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import yaml

from forecache.cli import EXIT_BAD_INPUT, main

from .consistency.draws import Draws
from .consistency.run import KINDS, scenario_of
from .plans import random_plan

EXAMPLES = Path("examples")
SEED = 37
RANDOM = {**dict.fromkeys(KINDS, 4), "large_commands": 5, "memory": 5, "plan": 2}
"""Random scenarios of each kind, 60 in all but refused draws."""

RENAMED: dict[str, str] = {}
"""What a field of an answer was called when the file was taken, and what it is called now."""

NEW = frozenset(
    {
        *("p99_with_pauses_ms", "p999_with_pauses_ms"),
        *("undisturbed_cpu_us_per_request", "network_gbit_per_s"),
    }
)
"""Fields that came since, in the rows of sweeps: not compared where the file lacks them."""

NOT_COMPARED = frozenset({"date", "seconds", "folder"})
"""Fields that say when, how fast and where something was answered."""

T = TypeVar("T")

SCENARIO = "scenario.yaml"
_SHOWN = 6
_TABLE = "table"

VERBS = {"memory": ("memory",), "cost": ("cost",), "plan": ("plan",)}
NODE_VERBS = ("simulate", "recommend", "simulate", "explain")
"""A node is asked for in turn."""


@dataclass(frozen=True)
class Question:
    """A command without what comes from where it runs.

    Attributes
    ----------
    arguments
        What follows `forecache`.
    scenario
        Of the file `SCENARIO`, if it is not one that is there.
    """

    name: str
    arguments: tuple[str, ...]
    scenario: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answered:
    """What a question gave: its exit code, values and text."""

    question: Question
    code: int
    values: Any
    text: str


def example_questions() -> list[Question]:
    """The commands in the first lines of every example that need no engine."""
    found: dict[tuple[str, ...], Question] = {}
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#   forecache "):
                continue
            words = shlex.split(line, comments=False)[2:]
            words = list(itertools.takewhile(lambda word: word != "#", words))
            # Files that are written say what the answer says.
            for option in ("--report", "--emit", "--out"):
                if option in words:
                    place = words.index(option)
                    del words[place : place + 2]
            if words[0] != "study":
                found.setdefault(tuple(words), Question(" ".join(words), tuple(words)))
    return [*found.values(), Question("catalog", ("catalog",))]


def random_question(kind: str, number: int) -> Question:
    """One of the random scenarios; it may not be valid."""
    if kind == "plan":
        data, verb = random_plan(number, seed=SEED), "plan"
    else:
        data = scenario_of(kind, Draws(SEED, kind, number))
        verbs = NODE_VERBS if kind.startswith("node, ") else VERBS.get(kind, ("simulate",))
        verb = verbs[number % len(verbs)]
    return Question(f"{kind}, {number}: {verb}", (verb, SCENARIO), data)


def answered(question: Question) -> Answered:
    """Ask, once for the values and of an example once more for the text."""
    with tempfile.TemporaryDirectory() as scratch:
        place = contextlib.nullcontext()
        if question.scenario is not None:
            # Answers and messages hold the name of the file: the same in every run.
            place = contextlib.chdir(scratch)
            text = yaml.safe_dump(dict(question.scenario), sort_keys=False)
            Path(scratch, SCENARIO).write_text(text, encoding="utf-8")
        words, swept = list(question.arguments), Path(scratch, "swept")
        sweeps = words[0] == "sweep"
        words += ["--quiet"] if words[0] != "catalog" else []
        with place:
            code, printed = _ran([*words, *(["--out", str(swept)] if sweeps else []), "--json"])
            values = _lasting(json.loads(printed)) if printed else None
            if sweeps and not code:
                values[_TABLE] = _rows(swept)
            text = ""
            if question.scenario is None:
                _, text = _ran([*words, *(["--out", f"{swept}-text"] if sweeps else [])])
        return Answered(question, code, values, text.replace(scratch, "FOLDER"))


def _ran(words: Sequence[str]) -> tuple[int, str]:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main(words)
    return code, printed.getvalue()


def _rows(folder: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(folder).to_pylist()
    return sorted(rows, key=lambda row: [str(value) for value in row.values()])


def _lasting(value: Any) -> Any:
    """Without `NOT_COMPARED`."""
    if isinstance(value, dict):
        return {name: _lasting(v) for name, v in value.items() if name not in NOT_COMPARED}
    return [_lasting(item) for item in value] if isinstance(value, list) else value


def _valid(which: tuple[str, int]) -> Answered:
    """The answer to a random scenario, or to the next one where that is refused."""
    kind, number = which
    for later in itertools.count():
        found = answered(random_question(kind, number + 100 * later))
        if found.code != EXIT_BAD_INPUT:
            return found
    raise AssertionError


def differences(
    before: Any, now: Any, *, renamed: Mapping[str, str] = RENAMED, at: str = ""
) -> Iterator[str]:
    """What differs between two answers, each as its place and both values."""
    if isinstance(before, dict) and isinstance(now, dict):
        was = {renamed.get(name, name): value for name, value in before.items()}
        for name in was.keys() | now.keys():
            where = f"{at}.{name}" if at else name
            if name not in now:
                yield f"{where} is gone"
            elif name not in was:
                if name not in NEW or not at.startswith(f"{_TABLE}["):
                    yield f"{where} is new"
            else:
                yield from differences(was[name], now[name], renamed=renamed, at=where)
    elif isinstance(before, list) and isinstance(now, list):
        if len(before) != len(now):
            yield f"{at}: {len(before)} before, {len(now)} now"
        for place, (old, new) in enumerate(zip(before, now, strict=False)):
            yield from differences(old, new, renamed=renamed, at=f"{at}[{place}]")
    elif type(before) is not type(now) or before != now:
        yield f"{at}: {before!r} before, {now!r} now"


def changes(before: Answered, now: Answered) -> list[str]:
    """Lines that say what differs; none if nothing does."""
    found = [] if before.code == now.code else [f"exit code {before.code} before, {now.code} now"]
    values = sorted(differences(before.values, now.values))
    found += values[:_SHOWN]
    if len(values) > _SHOWN:
        found.append(f"and {len(values) - _SHOWN} more values")
    lines = difflib.unified_diff(
        before.text.splitlines(), now.text.splitlines(), "text before", "text now", "", "", 0, ""
    )
    return found + list(itertools.islice(lines, 4 * _SHOWN))


def take(pool: Executor, only: str) -> Iterator[Answered]:
    """Answers to all questions whose name holds `only`, as they come."""
    wanted = [(kind, number) for kind, count in RANDOM.items() for number in range(count)]
    wanted = [
        (kind, number) for kind, number in wanted if only in random_question(kind, number).name
    ]
    examples = [question for question in example_questions() if only in question.name]
    yield from pool.map(partial(_said, _valid), wanted)
    yield from pool.map(partial(_said, answered), examples)


def _said(ask: Callable[[T], Answered], what: T) -> Answered:
    began_s = time.perf_counter()
    found = ask(what)
    print(f"{time.perf_counter() - began_s:6.1f} s  {found.question.name}", file=sys.stderr)
    return found


def compare(pool: Executor, file: Path, only: str) -> int:
    """Ask everything in a file again, print what differs, and return at how many questions."""
    lines = file.read_text(encoding="utf-8").splitlines()
    before = [each for each in map(_read, map(json.loads, lines)) if only in each.question.name]
    differ = 0
    for was, now in zip(
        before,
        pool.map(partial(_said, answered), [each.question for each in before]),
        strict=True,
    ):
        if found := changes(was, now):
            differ += 1
            print("\n  ".join([was.question.name, *found]), flush=True)
    print(f"{len(before) - differ} of {len(before)} answers are as before")
    return differ


def _read(row: Mapping[str, Any]) -> Answered:
    asked = row["question"]
    question = Question(asked["name"], tuple(asked["arguments"]), asked["scenario"])
    return Answered(question, row["code"], row["values"], row["text"])


def run(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m verification.answers", description=__doc__)
    parser.add_argument("what", choices=("take", "compare"))
    parser.add_argument("file", type=Path, help="JSON lines, of some megabytes")
    parser.add_argument("--only", default="", help="questions whose name holds this text")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as cache:
        # What an earlier version kept is not what this one answers.
        os.environ |= {"XDG_CACHE_HOME": cache, "COLUMNS": "100"}
        with ProcessPoolExecutor() as pool:
            if given.what == "compare":
                return min(1, compare(pool, given.file, given.only))
            with given.file.open("w", encoding="utf-8") as lines:
                for each in take(pool, given.only):
                    print(json.dumps(asdict(each)), file=lines, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run())
