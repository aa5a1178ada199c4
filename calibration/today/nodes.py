"""The nodes behind some files, and what each did between two looks or since it started."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from forecache.hwprofiles.files import read_text
from forecache.models.plan.results import OwnTimes
from forecache.models.scenario.command_table import COMMANDS
from forecache.sim.errors import InputError

from ..observe.readers.lines import Place, numbered, shown
from .commands import (
    ON_STRINGS,
    OPERATIONS,
    OperationCounts,
    is_demand,
    mean_times_us,
    operation_counts,
)
from .rdb import Kind

LEAST_SPAN_S = 0.5
"""Looks that are less apart tell no rate."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_FINDING = re.compile(r" \* ([^:]{1,80}):")
_LATEST_S = 5_000_000_000


@dataclass(frozen=True)
class SlowEntry:
    """An entry of the slow log: its command in small letters, when it ran, and how long."""

    command: str
    at_s: float
    time_us: float


@dataclass
class TodaysNode:
    """A node, and what was asked of it.

    Attributes
    ----------
    name
        That of its file, without ending.
    looks
        INFO, the earliest first.
    config
        Settings by name; empty where they were not asked, or refused.
    slow
        The slow log.
    findings
        Headings of what the memory doctor found.
    cluster
        Fields of CLUSTER INFO.
    slots
        CPU time in us by slot, of those that CLUSTER SLOT-STATS told.
    refused
        Commands that were answered with an error.
    others
        Commands whose replies are not read.
    on
        Operations that its commands may be counted as.
    """

    name: str
    file: str
    looks: list[Look] = field(default_factory=list)
    config: dict[str, str] = field(default_factory=dict)
    slow: list[SlowEntry] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    cluster: dict[str, str] = field(default_factory=dict)
    slots: dict[int, float] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    on: frozenset[str] = ON_STRINGS

    @property
    def last(self) -> Look:
        """The latest look."""
        return self.looks[-1]

    @property
    def clients(self) -> int:
        """The most connections that any look tells of, less those of replicas."""
        connected = max(look.number("connected_clients") or 1.0 for look in self.looks)
        return int(min(100_000, max(1, connected)))

    @property
    def compared(self) -> bool:
        """Whether there are two looks that tell a rate."""
        return len(self.looks) > 1 and _apart_s(self.looks[0], self.last) >= LEAST_SPAN_S

    @cached_property
    def span_s(self) -> float:
        """Of what is told: between the first look and the last, or since the start."""
        if self.compared:
            return _apart_s(self.looks[0], self.last)
        return max(1.0, self.last.time_s)

    def grown(self, name: str) -> float | None:
        """By how much a counter has grown in that time; None where it isn't told."""
        last = self.last.number(name)
        if not self.compared or last is None:
            return last
        first = self.looks[0].number(name) or 0.0
        if last < first:
            raise _shrank(self.last.fields[name][0], name, last, first)
        return last - first

    @cached_property
    def counts(self) -> dict[str, tuple[float, float]]:
        """Calls and time in us of each command in that time."""
        before = self.looks[0].commands if self.compared else {}
        found = {}
        for name, count in self.last.commands.items():
            calls, time_us = float(count.calls), count.time_us
            if name in before:
                if calls < before[name].calls:
                    place = self.last.fields[f"cmdstat_{name}"][0]
                    raise _shrank(place, f"calls of {name}", calls, before[name].calls)
                calls -= before[name].calls
                time_us = max(0.0, time_us - before[name].time_us)
            found[name] = calls, time_us
        return found

    @property
    def operations(self) -> OperationCounts:
        """Its commands as operations of a plan."""
        return operation_counts(self.counts, on=self.on)

    @property
    def rate_rps(self) -> float:
        """Operations a second in that time; of all commands where it does not tell which."""
        total = (
            self.operations.total if self.last.commands else self.grown("total_commands_processed")
        )
        return (total or 0.0) / self.span_s

    def rates(self) -> list[tuple[float, float]]:
        """Middle of each time between looks, in seconds, and commands a second in it."""
        found = []
        for first, last in zip(self.looks, self.looks[1:], strict=False):
            apart_s = _apart_s(first, last)
            done = last.needed("total_commands_processed")
            before = first.needed("total_commands_processed")
            if apart_s >= LEAST_SPAN_S and done >= before:
                middle_s = (last.clock_s or last.time_s) - apart_s / 2.0
                found.append((middle_s, (done - before) / apart_s))
        return found

    def peak_rps(self) -> float:
        """The highest rate of commands that looks tell, of their moment or since the last.

        The moment of the first of several looks lies before the time between them, in which the
        server may have been filled.
        """
        during = self.looks[1:] if self.compared else self.looks
        rates = [look.number("instantaneous_ops_per_sec") or 0.0 for look in during]
        rates += [rate for _, rate in self.rates()]
        return max(rates)


def nodes_of(files: Sequence[str | Path]) -> list[TodaysNode]:
    """The nodes that some files tell of; files of the same start of a server belong together."""
    nodes: dict[str, TodaysNode] = {}
    for path in files:
        file = str(path)
        replies = replies_of(read_text(path), file=file)
        looks = [look_of(reply) for reply in replies if _is(reply, "INFO")]
        if not looks:
            raise InputError(
                f"{file}: found no INFO; valid is a file with the text of INFO ALL, and of CONFIG "
                "GET * and others after lines such as '> CONFIG GET *'."
            )
        ids = {look.run_id for look in looks}
        if len(ids) > 1:
            raise looks[-1].place.wrong(
                f"another run_id than in the file's first INFO ({shown(looks[-1].run_id)})",
                valid="one node a file, which was not started anew",
            )
        node = nodes.setdefault(looks[0].run_id, TodaysNode(_name(path, nodes), file))
        node.looks += looks
        for reply in replies:
            _take(node, reply)
    for node in nodes.values():
        node.looks.sort(key=lambda look: (look.time_s, look.clock_s or 0.0))
    return list(nodes.values())


def _name(path: str | Path, nodes: Mapping[str, TodaysNode]) -> str:
    taken = {node.name for node in nodes.values()}
    stem = Path(path).stem or "node"
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}-{number}", number + 1
    return name


def _is(reply: Reply, command: str) -> bool:
    return reply.command == command or reply.command.startswith(command + " ")


def _take(node: TodaysNode, reply: Reply) -> None:
    """Add what a reply tells to a node."""
    if reply.refused is not None:
        if not _is(reply, "CLUSTER"):  # without a cluster it has to be
            node.refused.append(reply.command)
    elif _is(reply, "CONFIG GET"):
        node.config.update(_settings(reply))
    elif _is(reply, "SLOWLOG GET") or _is(reply, "COMMANDLOG GET"):
        node.slow += _slow_entries(reply.items())
    elif _is(reply, "MEMORY DOCTOR"):
        texts = [text for _, text in reply.lines]
        node.findings += [found[1] for text in texts if (found := _FINDING.match(text))]
    elif _is(reply, "CLUSTER INFO"):
        pairs = (text.strip().partition(":") for _, text in reply.lines)
        node.cluster.update({name: value for name, colon, value in pairs if colon})
    elif _is(reply, "CLUSTER SLOT-STATS"):
        node.slots.update(_slot_times(reply.items()))
    elif not _is(reply, "INFO"):
        node.others.append(reply.command)


def _settings(reply: Reply) -> dict[str, str]:
    """Names and values of CONFIG GET."""
    items = reply.items()
    if len(items) % 2:
        place, text = items[-1]
        raise place.wrong(
            f"{shown(text)} without a value in the reply of CONFIG GET", valid="names with values"
        )
    found = {}
    for (place, name), (_, value) in zip(items[::2], items[1::2], strict=True):
        if not _NAME.fullmatch(name):
            raise place.wrong(
                f"{shown(name)} as the name of a setting", valid="a name such as io-threads"
            )
        found[name.lower()] = value
    return found


def _slow_entries(items: Sequence[Line]) -> list[SlowEntry]:
    """Entries, each of which begins with its number, a time and a duration.

    Tools print arguments as they are, line breaks in them too; an entry is where numbers count
    down.
    """
    texts = [text.strip() for _, text in items]
    integers = [
        int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
        for text in texts
    ]
    found: list[SlowEntry] = []
    expected: int | None = None
    for i in range(len(texts) - 3):
        number, when, spent = integers[i : i + 3]
        if number is None or spent is None or when is None:
            continue
        if expected not in (None, number) or not 1_000_000_000 <= when <= _LATEST_S:
            continue
        expected = number - 1
        found.append(SlowEntry(texts[i + 3].lower()[:60], float(when), float(spent)))
    return found


def _slot_times(items: Sequence[Line]) -> dict[int, float]:
    """CPU time by slot, of `[slot, [name, value, ...]]`."""
    found: dict[int, float] = {}
    slot: tuple[Place, str] | None = None
    before: Line | None = None
    for place, text in items:
        if before is not None and before[1] == "key-count":
            before = None
        elif text == "key-count":
            slot = before
        elif before is not None and before[1] == "cpu-usec" and slot is not None:
            number = slot[0].count(slot[1], "slot", highest=16_383)
            found[number] = place.decimal(text, "cpu-usec", highest=1e20)
        before = place, text
    return found


def _apart_s(first: Look, last: Look) -> float:
    """Time from one look to another."""
    if first.clock_s is not None and last.clock_s is not None:
        return last.clock_s - first.clock_s
    return last.time_s - first.time_s


def _shrank(place: Place, name: str, last: float, first: float) -> InputError:
    return place.wrong(
        f"{name} {last:g}, less than {first:g} in the look before",
        valid="two looks without CONFIG RESETSTAT between them",
    )


# --- what a node says between two looks ----------------------------------------------------------


_WHOLE = "the text of INFO ALL or INFO EVERYTHING"
_COMMAND, _LATENCY = "cmdstat_", "latency_percentiles_usec_"
_DISTRIBUTION = re.compile(r"db[0-9]{1,9}_distrib_([a-z]+_[a-z]+)")
_DISTRIBUTIONS: Mapping[str, Kind] = {
    "strings_sizes": "string", "lists_items": "list", "sets_items": "set",
    "zsets_items": "sorted_set", "hashes_items": "hash",
}  # fmt: skip
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_MOST_S = 1e10


@dataclass(frozen=True)
class CommandCount:
    """How often a command ran since the server started, and the time it took, in us."""

    calls: int
    time_us: float


@dataclass(frozen=True)
class DatabaseKeys:
    """Keys of a database, and how many of them have a time to live."""

    keys: int
    expires: int


@dataclass(frozen=True)
class Look:
    """The fields of an INFO, each with its place.

    Attributes
    ----------
    place
        Where it begins.
    fields
        Values by name.
    """

    place: Place
    fields: Mapping[str, tuple[Place, str]]

    def text(self, name: str) -> str | None:
        """A field, if there is one."""
        return self.fields[name][1] if name in self.fields else None

    def number(self, name: str) -> float | None:
        """A number that isn't negative; None where this version has no such field."""
        if name not in self.fields:
            return None
        place, text = self.fields[name]
        return place.decimal(text, name, highest=1e20)

    def needed(self, name: str) -> float:
        """The same of a field that every version has."""
        found = self.number(name)
        if found is None:
            raise InputError(f"{self._where}: field {name!r} is missing; valid is {_WHOLE}.")
        return found

    @property
    def engine(self) -> tuple[str, str]:
        """Name and version."""
        name = "valkey" if "valkey_version" in self.fields else "redis"
        field = f"{name}_version"
        if field not in self.fields:
            raise InputError(f"{self._where}: field {field!r} is missing; valid is {_WHOLE}.")
        place, version = self.fields[field]
        if not version[:1].isdigit() or len(version) > 20 or not version.isascii():
            raise place.wrong(f"{shown(version)} as {field}", valid="a version, as 8.0.1")
        return name, version

    @property
    def run_id(self) -> str:
        """What tells one start of a server from all others; of old versions the port does."""
        return self.text("run_id") or f"port {self.text('tcp_port')}"

    @cached_property
    def time_s(self) -> float:
        """Since the server started."""
        return self.needed("uptime_in_seconds")

    @cached_property
    def clock_s(self) -> float | None:
        """Its clock to the microsecond, of versions that tell."""
        found = self.number("server_time_usec")
        return None if found is None else found / 1e6

    @cached_property
    def commands(self) -> Mapping[str, CommandCount]:
        """Commands by name, in small letters; none where INFO was asked without commandstats."""
        found = {}
        for name, (place, text) in self.fields.items():
            if not name.startswith(_COMMAND):
                continue
            values = _values(place, text, name)
            calls = place.count(values.get("calls", ""), f"calls of {name}")
            time_us = place.decimal(values.get("usec", ""), f"usec of {name}", highest=1e20)
            found[name.removeprefix(_COMMAND).lower()] = CommandCount(calls, time_us)
        return found

    @cached_property
    def databases(self) -> list[DatabaseKeys]:
        """Those that have keys."""
        found = []
        for name, (place, text) in self.fields.items():
            if not name.startswith("db") or not name[2:].isdigit():
                continue
            values = _values(place, text, name)
            keys = place.count(values.get("keys", ""), f"keys of {name}")
            expires = place.count(
                values.get("expires", "0"), f"expires of {name}", lowest=0, highest=keys
            )
            found.append(DatabaseKeys(keys, expires))
        return found

    @cached_property
    def latencies_ms(self) -> Mapping[str, Mapping[str, float]]:
        """How long commands took inside the server since it started: quantiles by name (`p99`)."""
        found = {}
        for name, (place, text) in self.fields.items():
            if name.startswith(_LATENCY):
                found[name.removeprefix(_LATENCY).lower()] = {
                    quantile[:10]: place.decimal(value, f"{quantile} of {name}", highest=1e20) / 1e3
                    for quantile, value in _values(place, text, name).items()
                }
        return found

    @cached_property
    def key_sizes(self) -> list[tuple[Kind, int, int]]:
        """Type, size and number of keys by powers of two (Redis 8).

        A size stands for all up to twice it; it is the length of strings, else a number of
        elements.
        """
        found = []
        for name, (place, text) in self.fields.items():
            match = _DISTRIBUTION.fullmatch(name)
            kind = None if match is None else _DISTRIBUTIONS.get(match[1])
            if kind is None:
                continue
            for size, keys in _values(place, text, name).items():
                unit = _UNITS.get(size[-1:], 0)
                digits = size[:-1] if unit else size
                number = place.count(digits, f"a size of {name}", highest=2**50) << unit
                found.append((kind, number, place.count(keys, f"keys of {name}", highest=10**12)))
        return found

    @property
    def replica(self) -> bool:
        """Whether the node follows another."""
        return self.text("role") == "slave"

    @property
    def _where(self) -> str:
        line = f", line {self.place.line}" if self.place.line else ""
        return f"{self.place.file}{line}"


def look_of(reply: Reply) -> Look:
    """The fields of an INFO."""
    fields: dict[str, tuple[Place, str]] = {}
    for place, line in reply.lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name, colon, value = text.partition(":")
        if not colon or not name:
            raise place.wrong(shown(text), valid="name:value, as INFO has it")
        fields.setdefault(name, (place, value.strip()))
    look = Look(reply.place, fields)
    _ = look.engine, look.run_id  # refuses what is no INFO
    if not look.time_s <= _MOST_S:
        raise fields["uptime_in_seconds"][0].wrong(
            f"{look.time_s:g} as uptime_in_seconds", valid=f"at most {_MOST_S:g}"
        )
    return look


def _values(place: Place, text: str, name: str) -> dict[str, str]:
    """`calls=3,usec=4` as a mapping."""
    found = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            raise place.wrong(f"{shown(part)} in {name[:60]}", valid="name=value,name=value")
        found[key] = value
    return found


# --- replies in a file of a node -----------------------------------------------------------------

# A file of one node: which commands were asked, and what each replied.
#
# Such a file is what `valkey-cli` or `redis-cli` print, with a line before each reply that begins
# with `>` and names the command, or a transcript of a terminal, whose prompt does the same. What
# comes before the first such line is taken to be INFO. Replies may be as tools print them to a file
# (bare lines) or to a terminal (`1) "name"`).


ASKED = (
    *("INFO", "CONFIG", "MEMORY", "SLOWLOG", "COMMANDLOG", "CLUSTER"),
    *("ACL", "CLIENT", "COMMAND", "DBSIZE", "LATENCY", "MODULE", "ROLE"),
)
"""First words of commands that may have been asked; not all replies are read."""

_PROMPT = re.compile(r"[^\s>]{0,200}> ?([A-Za-z][^>]{0,200})")
_ITEM = re.compile(r"\s*(?:\d{1,9}[)#]\s+)+")
_PAIR = re.compile(r"(.+?) => (.*)")
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{2}|.)")
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b"}
_NOTHING = ("(empty array)", "(empty list or set)", "(nil)")

Line = tuple[Place, str]


@dataclass(frozen=True)
class Reply:
    """What a command replied.

    Attributes
    ----------
    command
        In capitals, with single blanks: `CONFIG GET *`.
    place
        Where the reply begins.
    lines
        Its lines, as they stand in the file.
    """

    command: str
    place: Place
    lines: tuple[Line, ...]

    @property
    def refused(self) -> str | None:
        """The error that came instead of a reply; None if it was one."""
        first = next((text.strip() for _, text in self.lines if text.strip()), "")
        text = first.removeprefix("(error) ")
        words = text.split(" ", 1)[0]
        return text if words in ("ERR", "NOPERM", "NOAUTH", "WRONGPASS", "LOADING") else None

    def items(self) -> list[Line]:
        """Elements of an array in their order, those of arrays in it too."""
        found: list[Line] = []
        for place, line in self.lines:
            item = _ITEM.match(line)
            text = line[item.end() :] if item else line
            if text.strip() in _NOTHING:
                continue
            pair = _PAIR.fullmatch(text) if item else None
            parts = pair.groups() if pair else (text,)
            found += [(place, _bare(part) if item else part) for part in parts]
        while found and not found[-1][1] and len(found) % 2:
            found.pop()  # the blank line with which a tool ends a reply
        return found


def replies_of(text: str, *, file: str) -> list[Reply]:
    """The replies in a file, in their order."""
    found: list[tuple[str, Place, list[Line]]] = [("INFO", Place(file, 1), [])]
    for place, line in numbered(text, file=file):
        prompt = _PROMPT.fullmatch(line.rstrip())
        if prompt and prompt[1].split()[0].upper() in ASKED:
            command = " ".join(prompt[1].split()).upper().replace('"', "").replace("'", "")
            found.append((command, Place(file, place.line + 1), []))
        else:
            found[-1][2].append((place, line))
    return [
        Reply(command, place, tuple(lines))
        for command, place, lines in found
        if any(text.strip() for _, text in lines)
    ]


def _bare(text: str) -> str:
    """An element without the marks of its type."""
    text = text.strip().removeprefix("(integer) ")
    quoted = _QUOTED.fullmatch(text)
    return _ESCAPED.sub(_letter, quoted[1]) if quoted else text


def _letter(match: re.Match[str]) -> str:
    code = match[1]
    if code.startswith("x") and len(code) == 3:
        return chr(int(code[1:], 16))
    return _LETTERS.get(code, code)


# --- what no operation stands for ----------------------------------------------------------------


MOST_NOT_MODELLED = 0.2
"""Share of the execution time up to which a plan and a ceiling are given."""

_NAMED = 4


def shares_not_modelled(
    node: TodaysNode, *, assumed: Mapping[str, int], left_out: Collection[str]
) -> dict[str, float]:
    """Share of a node's execution time by command that the demand does not stand for.

    Execution time is the `usec` of commandstats. Of a command whose number of keys or elements is
    assumed, what counts is the time beyond that of so many GETs or SETs; of a range of a sorted
    set, whose members take far less than a GET each, all of its time. Where a server counts no
    time, calls take its place.

    Parameters
    ----------
    assumed
        Keys or elements of one operation, of operations for which nothing tells their number.
    left_out
        Operations, and commands that run long, that the demand leaves out.

    Returns
    -------
    dict
        The largest first.
    """
    counts = node.operations
    if counts.time_us <= 0.0:
        calls = counts.total + sum(count for count, _ in counts.slow.values())
        return _largest({name: count / calls for name, count in counts.unknown.items()})
    found = dict(counts.not_modelled_us)
    each_us = mean_times_us(node.counts)
    for name, (calls, spent_us) in node.counts.items():
        operation = OPERATIONS[name] if counts.knows(name) else ""
        if operation in left_out or (name in counts.slow and name in left_out):
            found[name] = spent_us
        elif operation in assumed and calls > 0:
            row = COMMANDS[operation]
            one_us = each_us.get("set" if row.writes else "get")
            modelled_us = 0.0
            if one_us is not None and row.touches != "range":
                modelled_us = calls * assumed[operation] * one_us
            found[name] = max(0.0, spent_us - modelled_us)
    return _largest({name: us / counts.time_us for name, us in found.items()})


def _largest(shares: Mapping[str, float]) -> dict[str, float]:
    named = sorted(shares.items(), key=lambda each: -each[1])
    return {name: share for name, share in named if share > 0.0}


def what_is_needed(
    node: TodaysNode, shares: Mapping[str, float], *, counts: OperationCounts
) -> str:
    """What to give so that the demand stands for these commands; empty if it does well enough."""
    total = sum(shares.values())
    if total <= MOST_NOT_MODELLED:
        return ""
    listed = [f"{name.upper()} {share:.0%}" for name, share in list(shares.items())[:_NAMED]]
    more = f" and {len(shares) - _NAMED} more" if len(shares) > _NAMED else ""
    of = "execution time" if counts.time_us > 0.0 else "commands"
    return (
        f"{node.file}: {total:.0%} of the {of} is not modelled ({', '.join(listed)}{more}), more "
        f"than {MOST_NOT_MODELLED:.0%}, so that no capacity, headroom or plan can be given. Give "
        "a scenario of kind plan whose demand.operations has modelled commands, with their keys, "
        "members or fields, that do as much work."
    )


# --- what a node says of its main thread's time ---------------------------------------------------


_LEAST_READS = 1000.0
_SCRIPTS = 0.01
"""Share of scripts and transactions from which on they explain commands beyond one a read."""
CALLING = ("eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro", "exec")
"""Their time has that of the commands which they call, each of which is counted for itself."""


def own_times_of(node: TodaysNode, *, io_threads: int) -> OwnTimes | None:
    """The shares of the time looked at; None where no command was counted.

    Parameters
    ----------
    io_threads
        With more than one `used_cpu` counts threads that spin, and tells nothing of the main one.
    """
    span_us = node.span_s * 1e6
    spent_us = {name: us for name, (_, us) in node.counts.items() if name not in CALLING}
    inside_us = sum(us for name, us in spent_us.items() if is_demand(name))
    if inside_us <= 0.0:
        return None
    administration_us = sum(spent_us.values()) - inside_us
    whole_us = node.grown("eventloop_duration_cmd_sum")
    if whole_us:
        inside_us = whole_us - administration_us if whole_us > administration_us else inside_us
    forks_us = (node.grown("total_forks") or 0.0) * (node.last.number("latest_fork_usec") or 0.0)
    expiry_us = 1e3 * (node.grown("expire_cycle_cpu_milliseconds") or 0.0)
    cpu_s = main_cpu_s(node) if io_threads == 1 else None
    reads = node.grown("total_reads_processed")
    commands = node.grown("total_commands_processed") or 0.0
    each = commands / reads if reads and reads >= _LEAST_READS else None
    called = sum(calls for name, (calls, _) in node.counts.items() if name in CALLING)
    if each is not None and called > _SCRIPTS * commands:
        each = min(each, 1.0)  # what they call is counted too, and came with no read of its own
    return OwnTimes(
        span_s=node.span_s,
        between_looks=node.compared,
        busy=None if cpu_s is None else cpu_s * 1e6 / span_us,
        inside=inside_us / span_us,
        administration=administration_us / span_us,
        forks=forks_us / span_us,
        expiry=expiry_us / span_us,
        commands_a_read=each,
    )


def main_cpu_s(node: TodaysNode) -> float | None:
    """CPU time of the main thread in the time looked at; of the process where that isn't told."""
    for suffix in ("_main_thread", ""):
        parts = [node.grown(f"used_cpu_{kind}{suffix}") for kind in ("user", "sys")]
        if None not in parts:
            return sum(part or 0.0 for part in parts)
    return None
