"""CPU time of a command in random mixes of 6 to 14 commands, measured beside what is predicted.

valkey-benchmark sends each mix as one sequence, over and over, to an engine with one thread on the
other core. What was drawn, the engine as shipped and the host as profiled are all that a prediction
has. Collections keep their sizes on average: commands overwrite what they find, or come in pairs,
one of which takes away what the other adds, if not from the same key; sizes are counted after each
mix.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forecache.calibration.drive.connection import RespClient
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.observe.command_counts import RESTORE, CountedKey, SentCommand
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.capture.host import profiled_answer_ns
from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import write_text_atomic
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.commands import counted_on
from forecache.models.engines.generator import load_generator
from forecache.models.prediction.predict import SERVER_CPU, predict_cases
from forecache.models.prediction.system import System
from forecache.models.scenario.command_table import COMMANDS, DESCRIBED_BY, DataType
from forecache.models.scenario.workload import WORKLOADS
from forecache.sim.errors import EngineError

from ..counts.shipped import json_text
from ..harness import Asked, Files, Progress
from ..markdown import table
from . import rounds
from .cpu_windows import TOOL, Tool, Window, as_profiled, case_of_load, profile_of_most, settled
from .engines import Engine

FOLDER = Path("evidence/mixes")
"""A folder per host: its profile, and what was measured."""
MEASURED_FILE = "measured.json"
ARTEFACT = Path("docs/accuracy/mixes.json")
ENGINES = (
    *("redis-2.8.19", "redis-3.2.6", "redis-5.0.6", "redis-6.2.11", "redis-7.0.15"),
    *("redis-8.0.6", "redis-8.6.3", "valkey-8.0.1", "valkey-8.1.1", "valkey-9.1.2"),
)
MIXES, CLIENTS, WINDOWS = 16, 20, 3
"""Mixes an engine, connections, windows a mix."""
KEYS = 1000
"""Of each kind, collections and strings alike."""
COMMANDS_OF_MIX = (6, 14)
MOST_REPEATS = 6
"""Times that a command comes in a sequence."""
ITEMS = (1, 4, 10, 30)
"""How many keys, members, fields, elements or entries a command names."""
SIZES: Mapping[DataType, Sequence[int]] = {
    "hash": (8, 40, 300),
    "list": (200, 1000),
    "set": (60, 600),
    "sorted_set": (16, 100, 1000),
    "stream": (100,),
}
VALUE_BYTES = (16, 128, 1024)
_COUNTED_BY: Mapping[DataType, str] = {
    "hash": "HLEN",
    "list": "LLEN",
    "set": "SCARD",
    "sorted_set": "ZCARD",
    "stream": "XLEN",
}
_SAMPLE, _DRIFT = 100, 0.1
"""Collections of a kind that are counted after a mix, and how far their mean may be from what was
drawn: pairs add and take at random keys, and what finds a collection empty takes nothing."""

PAIRS = {"lpush": "rpop", "rpush": "lpop", "sadd": "spop"}
"""What takes away as much as each of these adds."""
APART = (
    ({"zadd", "zincrby"}, {"zrangebyscore", "zcount"}),
    ({"lpush", "rpush"}, {"lpos"}),
    ({"sadd"}, {"sismember", "smismember"}),
    ({"pfadd"}, {"pfcount"}),
)
"""What moves scores, elements or members, and what finds something else then: in no mix together.
The last two came after the round of seed 6301."""
LEFT_OUT = frozenset(
    {
        # What they find is gone, or more, the next time.
        *("getdel", "append", "del", "unlink", "persist", "rename", "hdel", "ltrim", "linsert"),
        *("lrem", "srem", "zrem", "zpopmin", "zremrangebyrank", "xreadgroup", "xack", "xdel"),
        *("blpop", "getex", "rpoplpush", "lmove", "xadd"),
        # The tool draws no coordinates, and lists that pairs work on may lose an index.
        *("geoadd", "lset"),
        # Of all keys, or of none.
        *("scan", "select", "publish"),
        # An INCR of what one of these leaves is an error.
        *("incrbyfloat", "hincrbyfloat"),
    }
)
_RANDOM = "__rand_int__"
"""What the tool replaces by 12 digits."""
_PLACES = frozenset({"index", "id"})
"""Words for a place, which the tool can't draw. A command with one comes at least twice: engines
start from the nearer end, so a single place in the middle would be the dearest."""

_LEAST_RPS = 1000.0
"""Of a tool that runs: it ends at the first error, such as an LSET on a list that is gone."""

Row = dict[str, Any]


def draw(random: np.random.Generator, known: Sequence[str]) -> Row:
    """A mix of what is counted on an engine: commands with their items and repeats, and sizes."""
    alone = [c for c in known if c not in LEFT_OUT and c not in PAIRS.values()]
    sizes = {of_type: int(random.choice(of)) for of_type, of in SIZES.items()}
    asked: list[list[Any]] = []
    wanted = int(random.integers(*COMMANDS_OF_MIX, endpoint=True))
    for command in map(str, random.permutation(alone)):
        row, drawn = COMMANDS[command], {command, *(name for name, *_ in asked)}
        if any(drawn & one and drawn & other for one, other in APART):
            continue
        most = sizes.get(row.type, max(ITEMS))
        items = 1
        if row.items == "all":
            items = most
        elif row.items != "one":
            items = int(random.choice([n for n in ITEMS if n <= most]))
        least = 1 if _PLACES.isdisjoint(row.words) else 2
        repeats = rounds.log_uniform(random, least, MOST_REPEATS if items < 100 else least)
        if command in PAIRS:
            if len(asked) + 2 > wanted:
                continue
            asked += [[command, 1, repeats], [PAIRS[command], 1, repeats]]
        else:
            asked.append([command, items, repeats])
        if len(asked) >= wanted:
            break
    return {"commands": asked, "sizes": sizes, "value_bytes": int(random.choice(VALUE_BYTES))}


def _templates(mix: Row) -> dict[str, CountedKey]:
    """What each command of a mix works on."""
    found = {}
    for command, items, _ in mix["commands"]:
        row = COMMANDS[command]
        value_bytes = mix["value_bytes"] if row.type == "string" else 16
        point = SentCommand(command, items, mix["sizes"].get(row.type, 0), value_bytes)
        found[command] = point.template
    return found


def _keys_of(mix: Row) -> dict[str, CountedKey]:
    """The keys that a mix needs, by the first bytes of their names."""
    kinds = list(dict.fromkeys(_templates(mix).values()))
    return {_code(template, kinds): template for template in kinds}


def _code(template: CountedKey, templates: Sequence[CountedKey]) -> str:
    """The first four bytes of keys of a kind; twelve digits follow."""
    return f"k{templates.index(template):02d}:"


def words_of(mix: Row) -> list[str]:
    """The sequence as the tool takes it, in an order drawn at random.

    Up to seed 6301 each command came as often in a row as it comes.
    """
    random, templates = np.random.default_rng(1), _templates(mix)
    kinds = list(dict.fromkeys(templates.values()))
    found: list[list[str]] = []
    for command, items, repeats in mix["commands"]:
        template = templates[command]
        point = SentCommand(command, items, template.size, template.value_bytes)
        for n in range(repeats):
            spread = point.words(random, 0, place=(n + 0.5) / repeats)
            said = [_placeholder(word, _code(template, kinds)) for word in spread]
            if "score" in point.row.each:
                said[2::2] = [_RANDOM] * items
            found.append(said)
    order = random.permutation(len(found))
    return " ; ".join(" ".join(found[place]) for place in order).split(" ")


def _placeholder(word: str, code: str) -> str:
    if re.fullmatch(r"[a-z]+:\d+", word) and len(word) == 16:
        prefix, _, digits = word.partition(":")
        if prefix == "name":
            return f"nam:{_RANDOM}"
        if prefix != "item":
            return code + _RANDOM
        if int(digits) >= 10**6:  # a member that isn't there
            return f"new:{_RANDOM}"
    return word


def fill(mix: Row, control: RespClient) -> None:
    """Put the keys of a mix there, in place of all others."""
    control.command("FLUSHALL")
    templates = list(dict.fromkeys(_templates(mix).values()))
    for template in templates:
        for words in template.made_by():
            control.command(*words)
        name, code = template.name(), _code(template, templates)
        for first in range(0, KEYS, 100):
            keys = [f"{code}{n:012d}" for n in range(first, first + 100)]
            expires_ms = 10**8 if template.expires else 0
            control.command("EVAL", RESTORE, len(keys) + 1, name, *keys, expires_ms)
        control.command("DEL", name)


def measure(asked: Asked) -> Files:
    """Measure on this host; `ENGINES` and `SEED` are as in the study generations."""
    seed = rounds.seed()

    def drawn(id_: str) -> list[Row]:
        random = np.random.default_rng([seed, *id_.encode()])
        known = counted_on(rounds.shipped(id_).commands)
        return [draw(random, known) for _ in range(MIXES)]

    measured(FOLDER, drawn, asked, seed=seed)
    return predict(asked)


def measured(
    into: Path,
    mixes_of: Callable[[str], Sequence[Row]],
    asked: Asked,
    *,
    seed: int | None = None,
) -> None:
    """Measure mixes on the engines of this host.

    Parameters
    ----------
    into
        Where each host has its folder.
    mixes_of
        The mixes for an engine by its id, those that work on the same keys together.
    seed
        What they were drawn with.
    """
    with rounds.engines_at_hand() as (_, engines):
        program = rounds.engine_of(engines, "valkey-9.1.2").folder / TOOL
        host = capture_host(progress=asked.progress)
        rows: list[Row] = []
        for id_ in asked.only or ENGINES:
            mixes, engine = mixes_of(id_), rounds.engine_of(engines, id_)
            asked.progress(f"{id_}: {len(mixes)} mixes")
            rows += _of_engine(engine, program, mixes, host, progress=asked.progress)
        host = profile_of_most(host, rows, asked.progress)
        folder = into / host.id
        rounds.keep_host(folder, host)
        if seed is not None:
            rounds.keep_seed(folder, seed)
        write_text_atomic(folder / MEASURED_FILE, json_text(rows))


def _of_engine(
    engine: Engine,
    program: Path,
    mixes: Sequence[Row],
    host: HostProfile,
    *,
    progress: Progress,
) -> Iterator[Row]:
    core, driver = sorted(os.sched_getaffinity(0))[:2]
    filled: dict[str, CountedKey] = {}
    with ExitStack() as stack:
        process = stack.enter_context(EngineProcess(engine.server, cores=[core]))
        control = stack.enter_context(process.control())
        tool = Tool(program, driver, process, answer_ns=profiled_answer_ns(host))
        for mix in mixes:
            needed = _keys_of(mix)
            if needed != filled:
                fill(mix, control)
            filled = needed
            apart_ns = host.core_to_core_ns.best
            seen, distances = settled((core, driver), apart_ns, partial(_windows, tool, mix))
            try:
                check_sizes(control, mix)
                check_errors(control, mix)
            except EngineError as error:
                progress(f"{engine.id}: a mix is left out ({error})")
                filled = {}
                continue
            if any(COMMANDS[command].writes for command, *_ in mix["commands"]):
                filled = {}
            yield {
                "engine": engine.id,
                **mix,
                "apart_ns": distances,
                "cpu_us": [round(window.cpu_us, 4) for window in seen],
                "rps": [round(window.rps) for window in seen],
                "answer_ns": [round(window.answer_ns, 1) for window in seen],
            }


def _windows(tool: Tool, mix: Row) -> list[Window]:
    options = ("-c", CLIENTS, "-r", KEYS)
    return tool.windows(words_of(mix), *options, number=WINDOWS)


def check_errors(control: RespClient, mix: Row) -> None:
    """See that each command of a mix is no error, on key 1 of its kind."""
    random = np.random.default_rng()
    for words in " ".join(words_of(mix)).split(" ; "):
        other = f"{random.integers(KEYS):012d}"
        text = re.sub(rf"\b(k\d+:){_RANDOM}", rf"\g<1>{1:012d}", words)
        try:
            control.command(*text.replace(_RANDOM, other).split(" "))
        except EngineError as error:
            raise EngineError(f"{words[:80]}: {error}") from error


def check_sizes(control: RespClient, mix: Row) -> None:
    """See that collections are still as large as drawn, in the mean of a sample of each kind."""
    random, templates = np.random.default_rng(), list(dict.fromkeys(_templates(mix).values()))
    for template in templates:
        if template.type == "string":
            continue
        code, count = _code(template, templates), _COUNTED_BY[template.type]
        keys = [f"{code}{n:012d}" for n in random.choice(KEYS, _SAMPLE, replace=False)]
        found = float(np.mean([int(str(control.command(count, key))) for key in keys]))
        if abs(found / template.size - 1.0) > _DRIFT:
            raise EngineError(
                f"{template.type}: {template.size} in each were drawn and {found:.1f} are left"
            )


def workload_of(mix: Row) -> Row:
    """A mix as a scenario says it."""
    times: Counter[str] = Counter()
    for command, _, repeats in mix["commands"]:
        times[command] += repeats
    total = sum(times.values())
    shares = {}
    for command, items, _ in mix["commands"]:
        row, share = COMMANDS[command], times[command] / total
        named = row.items not in ("one", "all")
        shares[command] = {"share": share, row.items: items} if named else share
    keys = Counter(template.type for template in set(_templates(mix).values()))
    found: Row = {"clients": CLIENTS, "pipeline": total, "mix": shares}
    found |= {"key_bytes": 16, "value_bytes": mix["value_bytes"]}
    found["keys"] = KEYS * max(1, keys.pop("string", 0))
    for of_type, kinds in keys.items():
        size = {WORKLOADS[of_type].items: mix["sizes"][of_type]}
        found[DESCRIBED_BY[of_type]] = {"keys": KEYS * kinds, **size}
    return found


def _ran(row: Row) -> bool:
    """Whether the tool did, to the end of all windows."""
    return bool(min(row["rps"]) > _LEAST_RPS)


def predict(asked: Asked) -> Files:
    """What was measured, beside what is predicted of the shipped engines."""
    return {ARTEFACT: json_text(predicted(FOLDER, asked))}


def predicted(into: Path, asked: Asked) -> list[Row]:
    """What was measured on each host, beside predictions; `into` is as in `measured`."""
    generator, hosts = load_generator(TOOL), []
    for folder in sorted(path.parent for path in into.glob(f"*/{MEASURED_FILE}")):
        host = load_host(str(folder / rounds.HOST_FILE))
        rows = json.loads((folder / MEASURED_FILE).read_text(encoding="utf-8"))
        ran = [row for row in rows if _ran(row)]
        ended, moved = len(rows) - len(ran), len(ran)
        rows = []
        for row in ran:
            if kept := as_profiled(row, host):
                cpu_us = [row["cpu_us"][window] for window in kept]
                rows.append({**row, "cpu_us": cpu_us})
        moved -= len(rows)
        asked.progress(f"{folder}: predicting")
        engines = {id_: rounds.shipped(id_) for id_ in dict.fromkeys(r["engine"] for r in rows)}
        cases = [
            (
                case_of_load(engines[row["engine"]], workload_of(row)),
                System(host, engines[row["engine"]], generator),
            )
            for row in rows
        ]
        for row, prediction in zip(rows, predict_cases(cases, draws=rounds.DRAWS), strict=True):
            cpu = prediction.interval(SERVER_CPU, level=rounds.LEVEL)
            row |= {"predicted_us": cpu.value, "low_us": cpu.low, "high_us": cpu.high}
        date = "" if host.captured is None else str(host.captured.date)[:10]
        about: Row = {"id": folder.name, "title": host.title, "date": date}
        if (folder / rounds.SEED_FILE).exists():
            about["seed"] = json.loads((folder / rounds.SEED_FILE).read_text(encoding="utf-8"))
        hosts.append({**about, "moved": moved, "ended": ended, "points": rows})
    return hosts


def section() -> list[str]:
    """Its part of docs/generations.md."""
    low, high = COMMANDS_OF_MIX
    text = [
        "## Random mixes of commands",
        "",
        f"CPU time of a command in mixes of {low} to {high} commands; shipped engines on the host"
        " as profiled with the measurement. Commands, how often each comes, how many keys,"
        " members or fields it names, sizes of collections and values are drawn; valkey-benchmark"
        f" of Valkey 9.1.2 sends the sequence over {CLIENTS} connections, one at a time. Keys"
        f" are random ones of {KEYS:,} of each kind. Of the commands whose work on an engine is"
        " known, those are drawn that leave collections as they find them, or that come with their"
        f" counterpart ({_of_pairs()}): {len(COMMANDS) - len(LEFT_OUT)} of {len(COMMANDS)}. From"
        " seed 6301 on places in collections are spread over the repeats of a command, and what"
        " moves scores or elements comes in no mix with what looks for them. Up to then a command"
        " came as often in a row as it comes, which costs less than the random order that is"
        " predicted; since then the order is drawn. No"
        " number is fitted to these mixes; what the first round, seed 5501, and each command"
        " alone led to is said in"
        " [models.md](models.md#what-was-decided-with-the-results-in-view)."
        " All rounds are predicted anew: seeds 6203, 6301 and 6406 were 13.6, 15.5 and 21.1% off"
        " when they were predicted blind. A round before the last on the Xeon 6 host (seed"
        " 6405), whose profile other work had disturbed (16% fewer instructions a second than the"
        " median of nine other captures of the day), was 39% off, all too slow, and is not kept."
        " `make evidence STUDY=mixes`.",
    ]
    if not ARTEFACT.exists():
        return [*text, "", "Not measured yet."]
    for host in json.loads(ARTEFACT.read_text(encoding="utf-8")):
        rows = host["points"]
        if not rows:
            continue
        text += ["", f"### {host['title']}, {host['date']}: mixes", "", f"Seed {host['seed']}."]
        if host["moved"]:
            text[-1] += (
                " Mixes left out because the CPUs had been moved, or another machine used their"
                f" other hyperthreads: {host['moved']}."
            )
        if host["ended"]:
            text[-1] += f" Left out because the tool ended: {host['ended']}."
        text += ["", *scores(rows)]
    return text


def scores(rows: Sequence[Row]) -> list[str]:
    """A table of the errors by engine, and what is furthest off."""
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    body = [_scores(id_, [r for r in rows if r["engine"] == id_]) for id_ in engines]
    return [*table(_HEADER, [*body, _scores("all", rows)]), "", _worst(rows)]


_HEADER = (
    *("engine", ">loads", ">us a command, measured", ">median error", ">95th percentile"),
    *(">bias", ">repeat", f">inside {rounds.LEVEL:.0%} intervals"),
)


def _of_pairs() -> str:
    return ", ".join(f"{more.upper()} with {less.upper()}" for more, less in PAIRS.items())


def _error(row: Row) -> float:
    """Of the prediction, relative to the median of the windows."""
    return float(row["predicted_us"] / np.median(row["cpu_us"]) - 1.0)


def _scores(name: str, rows: Sequence[Row]) -> list[str]:
    errors = np.array([_error(row) for row in rows])
    measured = np.array([np.median(row["cpu_us"]) for row in rows])
    repeats = [np.ptp(row["cpu_us"]) / np.median(row["cpu_us"]) for row in rows]
    inside = sum(
        row["low_us"] <= us <= row["high_us"] for row, us in zip(rows, measured, strict=True)
    )
    return [
        name,
        str(len(rows)),
        f"{measured.min():.2f} to {measured.max():.2f}",
        f"{np.median(np.abs(errors)):.1%}",
        f"{np.quantile(np.abs(errors), 0.95):.1%}",
        f"{np.median(errors):+.1%}",
        f"{np.median(repeats):.1%}",
        f"{inside} of {len(rows)}",
    ]


def _worst(rows: Sequence[Row]) -> str:
    """The mixes that are furthest off."""
    found = sorted(rows, key=lambda row: -abs(np.log1p(_error(row))))[:3]
    said = [
        f"{row['engine']} {_error(row):+.0%} ({', '.join(c.upper() for c, *_ in row['commands'])})"
        for row in found
    ]
    return f"Furthest off: {'; '.join(said)}."
