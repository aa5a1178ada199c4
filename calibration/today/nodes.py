"""The nodes behind some files, and what each did between two looks or since it started."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from forecache.hwprofiles.files import read_text
from forecache.sim.errors import InputError

from ..observe.readers.lines import Place, shown
from .commands import Placed, placed
from .look import Look, look_of
from .replies import Line, Reply, replies_of

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
        Operations on hashes and sorted sets that its commands may be counted as.
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
    on: frozenset[str] = frozenset()

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
    def settings_known(self) -> bool:
        """Whether CONFIG GET was answered."""
        return bool(self.config)

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
        """By how much a counter has grown in that time; None where it isn't told.

        Raises
        ------
        InputError
            It shrank.
        """
        last = self.last.number(name)
        if not self.compared or last is None:
            return last
        first = self.looks[0].number(name) or 0.0
        if last < first:
            raise _shrank(self.last.fields[name][0], name, last, first)
        return last - first

    @cached_property
    def counts(self) -> dict[str, tuple[float, float]]:
        """Calls and time in us of each command in that time.

        Raises
        ------
        InputError
            There are fewer than before.
        """
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
    def placed(self) -> Placed:
        """Its commands as operations of a plan."""
        return placed(self.counts, on=self.on)

    @property
    def rate_rps(self) -> float:
        """Operations a second in that time."""
        return self.placed.total / self.span_s

    def peak_rps(self) -> float:
        """The highest rate of commands that any look tells, of its moment or since the last."""
        rates = [look.number("instantaneous_ops_per_sec") or 0.0 for look in self.looks]
        for first, last in zip(self.looks, self.looks[1:], strict=False):
            apart_s = _apart_s(first, last)
            done = last.needed("total_commands_processed")
            before = first.needed("total_commands_processed")
            if apart_s >= LEAST_SPAN_S and done >= before:
                rates.append((done - before) / apart_s)
        return max(rates)


def nodes_of(files: Sequence[str | Path]) -> list[TodaysNode]:
    """The nodes that some files tell of; files of the same start of a server belong together.

    Raises
    ------
    InputError
        A file can't be read, is damaged or has no INFO.
    """
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
    """Names and values of CONFIG GET.

    Raises
    ------
    InputError
        They don't come in pairs.
    """
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
    found: list[SlowEntry] = []
    expected: int | None = None
    for i in range(len(texts) - 3):
        number, when, spent = (_integer(text) for text in texts[i : i + 3])
        if number is None or spent is None or when is None:
            continue
        if expected not in (None, number) or not 1_000_000_000 <= when <= _LATEST_S:
            continue
        expected = number - 1
        found.append(SlowEntry(texts[i + 3].lower()[:60], float(when), float(spent)))
    return found


def _slot_times(items: Sequence[Line]) -> dict[int, float]:
    """CPU time by slot, of `[slot, [name, value, ...]]`.

    Raises
    ------
    InputError
        A number is none.
    """
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


def _integer(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


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
