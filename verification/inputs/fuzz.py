"""Damaged inputs of every kind for every verb: each ends with a defined exit code and a sentence.

Starts from every example, dataset, profile, price table, trace and bundle, changes what they hold
or how they are spelt, and runs the command line on them, each in a process of its own that was
forked from one in which all is imported. What fails is kept with its command. The outputs of
benchmark tools and profilers are damaged by `readers.py`; `study`, `profile` and `observe` measure,
so that only their options could be wrong.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import yaml

from forecache.cli import main
from forecache.sim.effort import VARIABLE

from ..check import Check, Finding, within_range
from .damage import as_yaml, damaged_text, damaged_tree
from .readers import damaged

ROOT = Path(__file__).parents[2]
COUNT = 20_000
SEED = 20261123
_SOME_ACCEPTED = 200
"""Of so many inputs some are accepted: one in 25 is."""

LIMIT_S = 60.0
"""An input that takes more CPU time has failed, whatever else the machine does meanwhile."""

_HANGS_S = 900.0
"""And one that is not done then, which waits for something."""

MOST_BYTES = 2 * 2**30
"""Nor may one take more memory."""

_DEFINED = {0, 2, 3, 5, 7, 8}
"""Exit codes that an input may end with."""

_WORK_S = ((0.3, 85), (1.0, 12), (4.0, 3))
"""Work that is allowed, and how often: most inputs are to be refused or cheap."""

_TROUBLE = (
    *("Traceback", "this is a bug", "validation error", "errors.pydantic.dev", "Fatal Python"),
    *("Input should", "RuntimeWarning", "Segmentation"),
)
"""What no message may hold."""


@dataclass(frozen=True)
class Source:
    """A file to damage and the commands that read it; FILE in them stands for its path.

    `beside` holds other files of its folder, by name.
    """

    name: str
    text: bytes
    commands: tuple[tuple[str, ...], ...]
    beside: tuple[tuple[str, bytes], ...] = ()
    tree: bool = True

    @cached_property
    def data(self) -> Any:
        """What the file holds, if it is YAML."""
        return yaml.safe_load(self.text)


@dataclass
class Outcome:
    """How inputs ended."""

    codes: Counter[str] = field(default_factory=Counter)
    by_verb: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    slowest: str = ""
    largest_bytes: int = 0
    largest: str = ""


def sources() -> list[Source]:
    """Everything a verb reads."""
    found: list[Source] = []
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        text = path.read_bytes()
        kind = yaml.safe_load(text).get("kind", "node")
        verbs: tuple[tuple[str, ...], ...] = (("simulate", "FILE", "--jobs", "1"),)
        if kind == "node":
            verbs += (("recommend", "FILE"), ("explain", "FILE"), ("memory", "FILE"))
        elif kind in ("memory", "cost"):
            verbs = ((kind, "FILE"),)
        found.append(Source(f"{kind}:{path.name}", text, verbs))
    datasets = sorted((ROOT / "calibration" / "validate" / "datasets").glob("*.yaml"))
    found += [
        Source(f"dataset:{p.name}", p.read_bytes(), (("validate", "FILE"),)) for p in datasets
    ]
    quick = ROOT / "examples" / "quickstart.yaml"
    small = yaml.safe_load(quick.read_bytes()) | {"io_threads": 2}
    for path in sorted((ROOT / "hwprofiles" / "hosts").glob("*/profile.yaml")):
        named = as_yaml(small | {"host": "FILE"}).encode()
        found.append(
            Source(
                f"host:{path.parent.name}",
                path.read_bytes(),
                (("catalog", "FILE"), ("simulate", "scenario.yaml"), ("memory", "scenario.yaml")),
                (("scenario.yaml", named),),
            )
        )
    for path in sorted((ROOT / "models" / "engines").glob("*.yaml")):
        engine = yaml.safe_load(path.read_bytes())
        asked = {"engine": "FILE", "engine_version": engine.get("version", "9.1")}
        named = as_yaml(small | asked).encode()
        commands = (("simulate", "scenario.yaml"), ("recommend", "scenario.yaml"))
        found.append(
            Source(f"engine:{path.name}", path.read_bytes(), commands, (("scenario.yaml", named),))
        )
    for path in sorted((ROOT / "models" / "engines" / "generators").glob("*.yaml")):
        named = as_yaml(small | {"load_generator": {"tool": "FILE"}}).encode()
        commands = (("simulate", "scenario.yaml"), ("recommend", "scenario.yaml"))
        beside = (("scenario.yaml", named),)
        found.append(Source(f"generator:{path.name}", path.read_bytes(), commands, beside))
    for path in sorted((ROOT / "models" / "prices" / "tables").glob("*.yaml")):
        scenario = yaml.safe_load((ROOT / "examples" / "cost.yaml").read_bytes())
        named = as_yaml(scenario | {"prices": "FILE"}).encode()
        found.append(
            Source(
                f"prices:{path.name}",
                path.read_bytes(),
                (("cost", "scenario.yaml"),),
                (("scenario.yaml", named),),
            )
        )
    return [*found, *_traces(small), *_bundles(), *_bills()]


def _traces(small: dict[str, Any]) -> Iterator[Source]:
    """Recorded arrivals, and recorded demand of a fleet."""
    rows = "".join(f"{n * 0.001:.4f},{('get', 'set')[n % 5 == 0]}\n" for n in range(300))
    workload = {k: v for k, v in small["workload"].items() if k not in ("arrival", "pipeline")}
    scenario = small | {"workload": workload | {"arrival": "open_loop", "trace": "FILE"}}
    yield Source(
        "trace:arrivals",
        f"time_s,command\n{rows}".encode(),
        (("simulate", "scenario.yaml"),),
        (("scenario.yaml", as_yaml(scenario).encode()),),
        tree=False,
    )
    rows = "".join(f"{n * 300},{n % 3},{1 + n % 7}\n" for n in range(200))
    fleet = {
        "kind": "overcommit",
        "duration_s": 3600,
        "hosts": {"count": 4, "memory_gb": 64},
        "machines": {"count": 20},
        "demand": {"trace": "FILE"},
    }
    yield Source(
        "trace:memory",
        f"time_s,tenant,memory_gb\n{rows}".encode(),
        (("simulate", "scenario.yaml", "--jobs", "1"),),
        (("scenario.yaml", as_yaml(fleet).encode()),),
        tree=False,
    )


def _bundles() -> Iterator[Source]:
    """Each file of an observation, beside the others as they are."""
    folder = ROOT / "evidence" / "bundles" / "valkey-9.1"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    points = gzip.decompress(files.pop("points.jsonl.gz")).splitlines(keepends=True)[:30]
    files["points.jsonl"] = b"".join(points)
    manifest = yaml.safe_load(files["manifest.yaml"]) | {"points": len(points)}
    files["manifest.yaml"] = as_yaml(manifest).encode()
    for name, text in sorted(files.items()):
        beside = tuple((other, held) for other, held in files.items() if other != name)
        command = ("calibrate", ".", "--out", "engine.yaml")
        yield Source(f"bundle:{name}", text, (command,), beside, tree=name.endswith(".yaml"))


def _bills() -> Iterator[Source]:
    """An export of a bill and metrics of its nodes, each beside the other as it is."""
    folder = ROOT / "examples" / "bill"
    files = {path.name: path.read_bytes() for path in sorted(folder.glob("*.csv"))}
    for name, text in files.items():
        beside = tuple((other, held) for other, held in files.items() if other != name)
        words = ("plan", "--from-bill", "FILE", *(other for other, _ in beside))
        command = (*words, "--no-search", "-q")
        yield Source(f"bill:{name}", text, (command,), beside, tree=False)


def fuzz(*, count: int, seed: int, jobs: int, kept: Path) -> Outcome:
    """Run a number of damaged inputs; those that fail are kept in a folder."""
    outcome = Outcome()
    whole = sources()
    work = Path(tempfile.mkdtemp(prefix="forecache-fuzz-"))
    environment = dict(os.environ)
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")
    try:
        _prepare(whole, work)
        running: dict[int, _Run] = {}
        number = 0
        while number < count or running:
            while number < count and len(running) < jobs:
                run = _begin(whole, number, seed=seed, work=work)
                running[run.pid] = run
                number += 1
            _take(running, outcome, kept)
        return outcome
    finally:
        # Checks that follow are not limited as these inputs are.
        os.environ.clear()
        os.environ.update(environment)
        shutil.rmtree(work, ignore_errors=True)


def _prepare(whole: list[Source], work: Path) -> None:
    """Import and load what inputs need, so that forks have it: one of each kind, undamaged."""
    os.environ[VARIABLE] = str(_WORK_S[0][0])
    kinds = {source.name.partition(":")[0]: source for source in whole}
    with _quiet(os.open(os.devnull, os.O_WRONLY)):
        for source in kinds.values():
            for command in source.commands:
                if command[0] != "calibrate":
                    main(_laid_out(source, source.text, command, work / "whole"))
        import forecache.calibration.fit.calibrate  # noqa: F401
    # What is here stays: forks that looked through it for garbage would copy all of its pages.
    gc.collect()
    gc.freeze()


@dataclass
class _Run:
    pid: int
    name: str
    command: list[str]
    folder: Path
    messages: int
    began_s: float
    killed: bool = False


def _begin(whole: list[Source], number: int, *, seed: int, work: Path) -> _Run:
    draw = random.Random(f"{seed}/{number}")
    source = draw.choice(whole)
    command = draw.choice(source.commands)
    folder = work / str(number)
    words = _laid_out(source, _damaged_source(source, draw), command, folder)
    if draw.random() < 0.3:
        words.append("--json")
    allowed, weights = zip(*_WORK_S, strict=True)
    [work_s] = draw.choices(allowed, weights)
    messages = os.memfd_create("messages")
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _be(words, folder, messages, work_s)
    return _Run(pid, f"input {number} ({source.name})", words, folder, messages, time.monotonic())


def _damaged_source(source: Source, draw: random.Random) -> bytes:
    way = draw.random()
    if source.tree and way < 0.75:
        with contextlib.suppress(yaml.YAMLError, RecursionError, ValueError):
            return as_yaml(damaged_tree(source.data, draw)).encode()
    if way < 0.82:
        return damaged_text(source.text.decode(), draw).encode()
    return damaged([source.text], draw)


def _laid_out(source: Source, text: bytes, command: tuple[str, ...], folder: Path) -> list[str]:
    """Write the files of an input, and return the command that reads them."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    named = source.name.startswith(("bundle", "bill"))
    name = source.name.partition(":")[2] if named else "given.yaml"
    path = folder / name
    path.write_bytes(text)
    for other, held in source.beside:
        (folder / other).write_bytes(held.replace(b"FILE", str(path).encode()))
    places = {"FILE": str(path), ".": str(folder)}
    return [
        str(folder / word) if word in dict(source.beside) else places.get(word, word)
        for word in command
    ]


def _be(words: list[str], folder: Path, messages: int, work_s: float) -> None:
    """Be the command, in a forked process, and never return."""
    code = 70
    try:
        os.setpgid(0, 0)
        os.chdir(folder)
        os.environ[VARIABLE] = str(work_s)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (2 * MOST_BYTES, 2 * MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (round(LIMIT_S), round(LIMIT_S) + 1))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(messages, 2)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _take(running: dict[int, _Run], outcome: Outcome, kept: Path) -> None:
    """Wait until a process ends, or one has to be ended."""
    pid, status, used = os.wait4(-1, os.WNOHANG)
    if pid not in running:
        for run in running.values():
            if time.monotonic() - run.began_s > _HANGS_S and not run.killed:
                run.killed = True
                os.killpg(run.pid, signal.SIGKILL)
        time.sleep(0.001)
        return
    run = running.pop(pid)
    elapsed_s = used.ru_utime + used.ru_stime
    code = os.waitstatus_to_exitcode(status)
    with os.fdopen(run.messages, "rb") as stream:
        stream.seek(0)
        told = stream.read(100_000).decode(errors="replace")
    told = told[told.rfind("forecache: error:") :] if "forecache: error:" in told else told
    reason = _reason(code, told, elapsed_s, used.ru_maxrss * 1024, killed=run.killed)
    outcome.codes["ended by the limit" if run.killed else str(code)] += 1
    outcome.by_verb[run.command[0]] += 1
    if elapsed_s > outcome.slowest_s:
        outcome.slowest_s, outcome.slowest = elapsed_s, run.name
    if used.ru_maxrss * 1024 > outcome.largest_bytes:
        outcome.largest_bytes, outcome.largest = used.ru_maxrss * 1024, run.name
    if reason is None:
        shutil.rmtree(run.folder, ignore_errors=True)
        return
    place = kept / run.folder.name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run.folder, place)
    for file in place.iterdir():
        here, there = str(run.folder).encode(), str(place.resolve()).encode()
        file.write_bytes(file.read_bytes().replace(here, there))
    (place / "COMMAND").write_text(
        " ".join(run.command).replace(str(run.folder), str(place.resolve())) + "\n"
    )
    (place / "MESSAGE").write_text(told)
    outcome.failures.append(f"{run.name}, {place}: {reason}")
    shutil.rmtree(run.folder, ignore_errors=True)
    print(f"  {outcome.failures[-1][:400]}", file=sys.stderr, flush=True)


def _reason(code: int, told: str, elapsed_s: float, size_bytes: int, *, killed: bool) -> str | None:
    """Why an input failed; None if it did not."""
    if killed or code == -signal.SIGXCPU:
        return f"not done in {LIMIT_S:.0f} s of CPU time or {_HANGS_S:.0f} s"
    if code not in _DEFINED:
        return f"exit code {code} after {elapsed_s:.1f} s: {told.strip()[-300:]}"
    if size_bytes > MOST_BYTES:
        return f"{size_bytes / 2**30:.1f} GiB"
    for word in _TROUBLE:
        if word in told:
            return f"{word!r} in {told.strip()[-300:]}"
    if code and not told.startswith("forecache: error:"):
        return f"exit code {code} without a sentence: {told[:200]!r}"
    if code and "\n" in told.strip():
        return f"more than one line: {told[:300]!r}"
    return None


@contextlib.contextmanager
def _quiet(target: int) -> Iterator[None]:
    """Standard output and error somewhere else."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, old in enumerate(saved, start=1):
            os.dup2(old, number)


def findings(*, count: int = COUNT, seed: int = SEED, jobs: int | None = None) -> list[Finding]:
    """No failure, and both refused and accepted inputs, without which the rest says nothing.

    Of few inputs all may be refused.
    """
    kept = Path("build") / "fuzz"
    began_s = time.monotonic()
    outcome = fuzz(count=count, seed=seed, jobs=jobs or len(os.sched_getaffinity(0)), kept=kept)
    codes = ", ".join(f"{code}: {n:,}" for code, n in sorted(outcome.codes.items()))
    verbs = ", ".join(f"{verb} {n:,}" for verb, n in outcome.by_verb.most_common())
    print(f"  seed {seed}, {count:,} inputs in {time.monotonic() - began_s:.0f} s: {verbs}")
    print(f"  exit codes {codes}")
    print(f"  slowest {outcome.slowest_s:.1f} s of CPU time, {outcome.slowest}")
    print(f"  most memory {outcome.largest_bytes / 2**20:.0f} MiB, {outcome.largest}", flush=True)
    refused = float(outcome.codes["2"])
    most_refused = count - 1 if count >= _SOME_ACCEPTED else count
    return [
        within_range(f"failures in {count} inputs", 0, len(outcome.failures), 0, 0),
        within_range("slowest, s of CPU time", 0, outcome.slowest_s, 0, LIMIT_S),
        within_range("most memory, GiB", 0, outcome.largest_bytes / 2**30, 0, MOST_BYTES / 2**30),
        within_range("refused", refused, refused, 1, most_refused),
    ]


def check(*, count: int = COUNT, seed: int = SEED) -> Check:
    """The check with a number of inputs of a seed."""
    run: Callable[[], list[Finding]] = partial(findings, count=count, seed=seed)
    return Check("fuzz", "damaged inputs of every kind for every verb end with a sentence", run)


CHECKS = [check()]
