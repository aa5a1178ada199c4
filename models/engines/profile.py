"""Engine profiles: which rules an engine version follows and how much work each stage is.

Work is a property of the engine's build: instructions, system calls, lines touched or handed from
core to core. How fast that is, is a property of the host. The time of a stage is

    instructions / (IPC * clock) + system calls * time per call + touched lines * their latency

and is put together in `stages`.

A file may say only how it differs from another profile, which it names in one of two fields:

- `variant_of`: everything the file doesn't say holds as it does there, work and covariance too.
- `reuse: {from: ID, widen: FACTOR, reason: SENTENCE}`: rules hold as they do there. A number that
  was observed there is `assumed` here, in a range `widen` times as wide at either end; one that is
  assumed or published there stays as it is. What was found about the other version alone is not
  taken over: notes, covariance and the error of its fit. `commands_from: ID` names another profile
  for the work of commands beyond GET and SET.

Entries of `work`, `commands` and `sources` replace those of the same name one by one;
`commands: {}` means none. A file that holds all of `work` and has no `widen` stands alone, as
`forecache calibrate` writes it; its `reuse: {from, to, reason}` is only a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_serializer, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.named_files import names_file
from forecache.hwprofiles.quantity import Quantity, Source, ranges_of
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from ..layouts.generations import KeyLayout
from ..node.policies import POLICIES, Policy
from ..scenario.command_table import later_commands
from ..scenario.versions import is_newer, minor_version, taken_as_newest
from .commands import ALL_COMMANDS, CALLING, COMMAND_WORK, counted_on, work_of

Layout = Literal[KeyLayout, "slabs"]


@dataclass(frozen=True)
class EngineWork:
    """The work of each stage as plain numbers.

    `..._instructions` are instructions of user code; `..._lines` count the cache lines a thread
    has to fetch from another core's cache, one after the other; scales are factors.

    Attributes
    ----------
    loop_instructions
        One turn of the event loop.
    read_instructions, write_instructions
        Per readable client and per client written to, around the system call.
    parse_instructions, get_instructions, set_instructions
        Per command; the data in the nearest caches.
    value_instructions
        What a SET does beyond finding its key: allocating the new value, releasing the old one.
        I/O threads, where there are any, do both.
    parse_instructions_per_byte, get_instructions_per_byte, set_instructions_per_byte
        Per byte of the value: copies into and out of the engine's objects and buffers.
    command_lookup_instructions
        Of a GET's or SET's instructions those that find the command in the table and check its
        arity: with I/O threads the thread that parses the command spends them.
    kernel_scale
        Time of the engine's socket calls relative to the host's micro-benchmark of them.
    wake_scale
        Time of sleeping in epoll_wait and of waking, relative to the host's micro-benchmark.
    touch_scale
        Lines waited for against those the memory layout says.
    stream_scale
        Waits for a value's lines after the first against those assumed of a copy.
    value_touches
        Lines a SET waits for beyond a look-up: the old value it releases, the allocator's books.
    prefetch_instructions_per_key
        A batched look-up's own work per key.
    push_instructions, pop_instructions, done_instructions, scan_instructions,
    collect_instructions
        Handing a job over, taking it, noting it done, looking at one that is not, taking a
        response. Where threads own their clients: handing a client back, taking one, moving a list
        under its lock, looking at a client the main thread has, taking one from its list.
    read_lines, write_lines
        Fetched from the main thread's core by an I/O thread per read or write job.
    shared_lines
        Lines that I/O threads write in turn, fetched per request when there are two or more; half
        as many again for a SET, whose value is a third burst of allocations besides the arguments'
        making and release.
    reply_lines_per_line
        Share of a reply's own lines that a thread waits for: the main thread when it writes into a
        buffer an I/O thread has read, the I/O thread when it reads what the main thread wrote. And
        of a request's where the main thread parses what an I/O thread has read.
    execute_lines, set_lines, done_lines
        Fetched from I/O threads' cores by the main thread per read job with the first command of a
        batch, more per SET, and per finished write (where threads own their clients, per list
        moved).
    command_lines
        Fetched from an I/O thread's core by the main thread per further command of a batch that
        the I/O thread has parsed.
    commands
        Of commands beyond GET and SET, by the names of `commands.COMMAND_WORK`; empty where it
        was never counted.
    """

    loop_instructions: float
    read_instructions: float
    write_instructions: float
    parse_instructions: float
    parse_instructions_per_byte: float
    get_instructions: float
    get_instructions_per_byte: float
    set_instructions: float
    set_instructions_per_byte: float
    value_instructions: float
    command_lookup_instructions: float
    kernel_scale: float
    wake_scale: float
    touch_scale: float
    stream_scale: float
    value_touches: float
    prefetch_instructions_per_key: float
    push_instructions: float
    pop_instructions: float
    done_instructions: float
    scan_instructions: float
    collect_instructions: float
    read_lines: float
    write_lines: float
    shared_lines: float
    reply_lines_per_line: float
    execute_lines: float
    command_lines: float
    set_lines: float
    done_lines: float
    commands: Mapping[str, float] = field(default_factory=dict)


WORK_NAMES = tuple(field.name for field in fields(EngineWork) if field.name != "commands")

HAND_OVER_WORK = frozenset(
    {
        *("push_instructions", "pop_instructions", "done_instructions", "scan_instructions"),
        *("collect_instructions", "read_lines", "write_lines", "shared_lines"),
        *("reply_lines_per_line", "execute_lines", "command_lines", "set_lines", "done_lines"),
        "command_lookup_instructions",
    }
)
"""Work that only an engine with I/O threads does."""


NEWER_WIDEN = 1.25
"""By how much ranges of work are wider at either end for a version newer than all known ones: as
in the shipped profiles that reuse work of another version."""


class Observed(Record):
    """Where the work of a profile was observed, and on which version of the engine."""

    engine: str | None = None
    """The engine, where it is another one than the profile's."""
    version: str
    build: str
    host: str
    captured: str | None = None
    """Day on which that host's profile was captured; None where nobody noted it."""
    date: str
    depth: Literal["clock", "instructions", "counters", "vtune"]
    bundle: str | None = None
    began_with: str | None = None
    """Id of the profile whose work the fit began with."""
    speed: dict[str, float] = Field(default_factory=dict)
    """Numbers of that host, by `HostSpeed` field, which the fit found together with the work."""
    variation: dict[Literal["window", "start"], float] = Field(default_factory=dict)
    """By how much windows and starts of the server differed there: relative standard deviations."""
    undisturbed: float | None = None
    """CPU time of the least disturbed window of a point, over that of an ordinary one."""


class Reuse(Record):
    """A written decision to use work observed on another version, or on a relative.

    In the profile of 8.1: `reuse: {from: valkey-8.0, to: "8.1", reason: ...}`; in that of Valkey
    7.2: `{from: redis-7.0, to: "7.2", reason: ...}`. A file that leaves its work to the other
    profile says `widen` as well (`completion`).
    """

    origin: str = Field(alias="from")
    to: str
    reason: str = Field(min_length=1)

    @model_serializer
    def _as_in_a_file(self) -> dict[str, str]:
        return {"from": self.origin, "to": self.to, "reason": self.reason}


class EngineProfile(Record):
    """An engine version: its rules and its work, every number with its origin."""

    id: str
    title: str
    engine: str
    version: str
    versions: list[str] = Field(default_factory=list)
    taken_as: str | None = None
    """The newest known version, where this one is newer than that and taken to have its rules."""
    variant_of: str | None = None
    """The shipped profile that holds for everything a variant's file doesn't say: one release with
    a known defect, say."""
    policy: str
    """Name of the threading policy (`models/node/policies/`)."""
    layout: Layout
    whole_pipeline: bool
    """Whether commands of a pipeline are parsed, and their keys looked up together, ahead of their
    execution; if not, they are parsed one by one."""
    lookahead: int | None = Field(default=None, ge=2, le=1024)
    """How many commands of one client at most, with `whole_pipeline`; None where all that were
    read."""
    lone_fetches_values: bool = False
    """Whether a lone main thread that looks keys up together fetches their values as well, as all
    do with I/O threads; if not, it walks to the entries only."""
    presentation_offload: bool = False
    """Whether the I/O thread that sends a reply formats it as well (ElastiCache for Redis 7.1)."""
    prefetch_batch: int = Field(ge=0, le=128)
    events_per_io_thread: int = Field(ge=0)
    job_capacity: int = Field(ge=2)
    hand_over_group: int = Field(default=16, ge=0)
    """Threads that own their clients: after how many clients a thread hands over before its turn
    ends (IO_THREAD_MAX_PENDING_CLIENTS); 0: it hands over once a turn, however many."""
    commands_per_event: int | None = Field(default=None, ge=1)
    """How many commands of one client a thread executes before it turns to others (-R of
    Memcached); None: all that were read."""
    read_limit_bytes: int = Field(default=20_475, ge=1024)
    """What one read asks for: a buffer of PROTO_IOBUF_LEN (16 KiB) as the allocator rounds it."""
    large_read_limit_bytes: int = Field(default=40_950, ge=1024)
    """The same where requests are so large that the buffer is doubled for their rests."""
    write_limit_bytes: int = Field(default=80 * 1024, ge=1024)
    """What one write carries: NET_MAX_WRITES_PER_EVENT (64 KiB), overshot by up to one 16 KiB block
    of the reply list."""
    moves_rest: bool = False
    """Whether what a read has left in the buffer moves to its front after every command (sdsrange
    in processMultibulkBuffer, up to Redis 4.0)."""
    replies_by_event: bool = False
    """Whether a reply waits for an event of its socket (up to Redis 3.0): epoll_ctl asks for it,
    the next poll finds it, epoll_ctl takes it back. Later versions write before they poll again."""
    reply_reference_bytes: int | None = Field(default=None, ge=1)
    """Values from this size on a lone main thread sends from where they lie, without a copy into a
    reply buffer (min-string-size-avoid-copy-reply); None where it always copies."""
    reply_reference_bytes_threaded: int | None = Field(default=None, ge=1)
    """The same with I/O threads (min-string-size-avoid-copy-reply-threaded)."""
    reply_reference_threads: int | None = Field(default=None, ge=2)
    """From this number of threads on every value with its own string is sent so; values are
    not fetched ahead (min-io-threads-avoid-copy-reply); None where there is no such rule."""
    reply_reference_reads_length: bool = False
    """Whether the main thread reads the length of a value that it doesn't copy (for the command
    log, valkey PR 2652): a line of the value that was not prefetched."""
    values_freed_by: Literal["main_thread", "io_threads"] = "main_thread"
    """Who frees the strings that SETs replace, where there are I/O threads."""
    deferred_objects: int = Field(default=0, ge=0)
    """How many objects the main thread leaves for the client's I/O thread to free when the client
    comes back to it: strings that SETs replace, and arguments, one by one or, with
    `whole_pipeline`, those of a command together. The main thread frees what is beyond."""
    tls: Literal["none", "main_thread", "io_threads", "io_threads_and_handshakes"] = "main_thread"
    """Who encrypts and decrypts where there are I/O threads, and whether they also do handshakes;
    with `main_thread` TLS connections leave them idle. Threads that own their clients encrypt for
    them. `none`: a version without TLS."""
    tls_bookkeeping_by_main: bool = False
    """Whether the main thread asks the library about every job (before valkey PR 1271)."""
    shells_freed_by_main: bool = False
    """Whether the main thread frees the object around such a string itself, which an I/O thread
    made."""
    max_io_threads: int = Field(ge=1)
    notes: list[str] = Field(default_factory=list)
    sources: dict[str, Source]
    observed: Observed | None = None
    reuse: Reuse | None = None
    work: dict[str, Quantity]
    commands: dict[str, Quantity] = Field(default_factory=dict)
    """Work of the commands beyond GET and SET that were counted, each with all its numbers."""
    covariance: dict[str, dict[str, float]] | None = None
    """Of the logarithms of what was fitted, on the host of the fit."""
    host_covariance: dict[str, dict[str, float]] | None = None
    """Of the logarithms of that host's fitted numbers, with each other and with the work: how much
    less is known of the work where the host is another."""
    discrepancy: float | None = Field(default=None, ge=0)
    """Relative standard error of the model, from points it was not fitted to."""
    discrepancy_points: int | None = Field(default=None, ge=0)
    """How many points that, and the next, are known from."""
    memory_discrepancy: float | None = Field(default=None, ge=0)
    """The same of waits for memory, by their share of the time."""
    generator: dict[str, Quantity] | None = None

    @field_validator("policy")
    @classmethod
    def _known(cls, policy: str) -> str:
        if policy not in POLICIES:
            *others, last = (repr(name) for name in POLICIES)
            raise ValueError(f"{', '.join(others)} or {last}")
        return policy

    @property
    def threading(self) -> Policy:
        """How its threads divide their work where there is more than one."""
        return POLICIES[self.policy]

    @model_validator(mode="after")
    def _complete(self) -> EngineProfile:
        missing = [name for name in WORK_NAMES if name not in self.work]
        unknown = [name for name in self.work if name not in WORK_NAMES]
        if missing or unknown:
            what = f"{missing[0]} is missing" if missing else f"{unknown[0]} is unknown"
            raise ValueError(f"one entry under work for each of {len(WORK_NAMES)} stages: {what}")
        for name, leaf in {**self.work, **self.commands}.items():
            check_leaf(name, leaf, self.sources)
        known = counted_on(self.commands)
        for name in self.commands:
            if name not in COMMAND_WORK:
                raise ValueError(
                    f"numbers of the table of commands under commands: {name} is unknown"
                )
        # A part of a command would be taken for all of it.
        names = {*ALL_COMMANDS, *(n for command in known for n in work_of(command))}
        calling = {name for names in CALLING.values() for name in names}
        if self.commands and (odd := (set(self.commands) - calling) ^ names):
            name = min(odd)
            what = "without the others of its command" if name in self.commands else "missing"
            raise ValueError(f"under commands all numbers of a command or none: {name} is {what}")
        for name in self.covariance or {}:
            if name not in self.work:
                raise ValueError(f"names of work under covariance: {name} is unknown")
        if self.reuse is not None and self.observed is None:
            raise ValueError("observed, which says what was reused, where there is reuse")
        return self

    def follows(self, version: str) -> bool:
        """Whether a version has this profile's rules: 8.1.1 has those of 8.1."""
        return any(
            version == known or version.startswith(known + ".")
            for known in (self.version, *self.versions)
        )

    @property
    def turns_per_round(self) -> int:
        """Turns of the event loop that read requests and answer them.

        A reply that waits for an event is written in the turn after the one that executes. That
        turn also reads what has come meanwhile; in the model it waits for the next round, so as
        many turns serve as many requests.
        """
        return 2 if self.replies_by_event else 1

    @property
    def taken_as_words(self) -> str | None:
        """That its version is taken as an older one, where it is."""
        if self.taken_as is None:
            return None
        return taken_as_newest(self.engine, self.version, self.taken_as)

    def engine_work(self, values: Mapping[str, float] | None = None) -> EngineWork:
        """The work as plain numbers, some of them replaced by `values`."""
        if not values:
            return self._known_work
        commands = {n: values.get(n, best) for n, best in self._known_work.commands.items()}
        changes: dict[str, Any] = {k: v for k, v in values.items() if k not in commands}
        return replace(self._known_work, commands=commands, **changes)

    @cached_property
    def _known_work(self) -> EngineWork:
        return EngineWork(
            **{name: self.work[name].best for name in WORK_NAMES},
            commands={name: leaf.best for name, leaf in self.commands.items()},
        )

    def uncertain_commands(self) -> dict[str, tuple[float, float, float]]:
        """(low, value, high) of each number of the work of commands beyond GET and SET."""
        return ranges_of(self.commands)

    def uncertain(self) -> dict[str, tuple[float, float, float]]:
        """(low, value, high) of each work number that has a range."""
        return ranges_of(self.work)


def check_leaf(name: str, leaf: Quantity, sources: Mapping[str, Source]) -> None:
    """Refuse work below zero and sources a profile doesn't list, with a `ValueError`."""
    lowest = leaf.best if leaf.low is None else leaf.low
    if lowest < 0.0:
        raise ValueError(f"work of at least zero ({name}: {lowest:g})")
    if leaf.source is not None and leaf.source not in sources:
        raise ValueError(f"a source listed in this file ({name}: {leaf.source!r})")


def list_engines() -> list[EngineProfile]:
    """All shipped engine profiles, by id."""
    return [load_engine(name) for name in sorted(_shipped_files())]


def load_engine(name: str, version: str | None = None) -> EngineProfile:
    """An engine profile by id (`valkey-8.0`), by engine and version, or from a file.

    A version newer than all known ones of its engine is taken as the newest of them (`taken_as`).

    Raises
    ------
    InputError
        Nothing is known by that name, the file is no engine profile or one of another version, or
        its work was observed on another version and no reuse record says why that will do.
    """
    if names_file(name):
        profile = _completed_profile(read_yaml(name), file=name)
        # A profile observed on 8.1.1 may also be asked for as 8.1.
        asked = version is None or profile.version.startswith(version + ".")
        if version is not None and not (asked or profile.follows(version)):
            raise InputError(
                f"field 'engine_version': found {version!r}; valid is {profile.version}, which "
                f"{name} is a profile of, unless its work is put into a profile of that version "
                "with a reuse record."
            )
        return _usable(profile, version, file=name)
    files = _shipped_files()
    if name in files and version is None:
        file = f"models/engines/{name}.yaml"
        return _usable(_shipped_profile(name), None, file=file)
    # An id is an engine and a version, so not all files need be read.
    ids = [key for key in sorted(files) if name in (key, key.rpartition("-")[0])]
    if version is None:
        found = next((p for p in map(_shipped_profile, ids[::-1]) if p.variant_of is None), None)
    else:
        near = [key for key in ids if f"{version}.".startswith(key.rpartition("-")[2] + ".")]
        found = _following(near, version) or _following(ids, version)
    if found is not None:
        return _usable(found, version, file=f"models/engines/{found.id}.yaml")
    same = [_shipped_profile(key) for key in ids]
    if not same:
        known = sorted({key.rpartition("-")[0] for key in files})
        hint = did_you_mean(name, [*known, *files]).removeprefix("valid are ")
        raise InputError(
            f"field 'engine': found {name!r}; valid is the path of a profile file, an engine or a "
            f"profile id: {hint}"
        )
    known_versions = [known for p in same for known in (p.version, *p.versions)]
    if version is not None and name not in files and is_newer(version, known_versions):
        profile = _newer(load_engine(name).id, version)
        return _usable(profile, version, file=f"{name} {version}")
    have = ", ".join(known_versions)
    raise InputError(
        f"field 'engine_version': found {version!r} for {name}; valid is one of {have}."
    )


def _following(ids: Sequence[str], version: str) -> EngineProfile | None:
    """The shipped profile of a version, among these.

    A variant is only meant where its version is given, and then rather than what it varies.
    """
    fitting = [p for p in map(_shipped_profile, ids) if p.follows(version)]
    return max(fitting, key=lambda p: (p.variant_of is not None, p.id), default=None)


@cache
def _shipped_files() -> Mapping[str, Path]:
    return shipped("forecache.models", "engines")


@cache
def _newer(newest: str, version: str) -> EngineProfile:
    """A version newer than all known ones: the rules of the newest, its work in wider ranges.

    Parameters
    ----------
    newest
        Id of the shipped profile that it is taken as.
    """
    base = _shipped_profile(newest)
    name = f"{base.engine}-{minor_version(version)}"
    data: dict[str, Any] = {
        "id": name,
        "title": f"{base.engine} {version}, taken as {base.version}",
        "version": version,
        "taken_as": base.version,
    }
    if base.observed is None:
        data["variant_of"] = newest
    else:
        reason = taken_as_newest(base.engine, version, base.version)
        data["reuse"] = {"from": newest, "widen": NEWER_WIDEN, "reason": reason}
    return _completed_profile(data, file=name)


@cache
def _shipped_profile(name: str) -> EngineProfile:
    data = _read_shipped(_shipped_files()[name])
    return _completed_profile(data, file=f"models/engines/{name}.yaml", chain=(name,))


def _completed_profile(
    data: Mapping[str, Any], *, file: str, chain: tuple[str, ...] = ()
) -> EngineProfile:
    """The profile of a file's contents, completed by those it builds on."""
    _check_origins(data, file=file, chain=chain)
    return parse(EngineProfile, _complete(data, file=file), file=file)


def _usable(profile: EngineProfile, version: str | None, *, file: str) -> EngineProfile:
    """The profile, unless its work was observed on another version or engine without a word.

    Patch releases share their work.
    """
    observed, reuse = profile.observed, profile.reuse
    asked = minor_version(profile.version if version is None else version)
    if observed is None:
        return profile
    engine = observed.engine or profile.engine
    if (engine, minor_version(observed.version)) == (profile.engine, asked):
        return profile
    origin = f"{engine}-{minor_version(observed.version)}"
    wanted = asked if engine == profile.engine else f"{profile.engine} {asked}"
    if reuse is not None and reuse.origin == origin and minor_version(reuse.to) == asked:
        return profile
    found = "no reuse record" if reuse is None else f"one from {reuse.origin} to {reuse.to}"
    raise InputError(
        f"{file}: found work observed on {engine} {observed.version}, asked for as "
        f"{wanted}, and {found}; valid is an observation of {wanted} or "
        f"`reuse: {{from: {origin}, to: {asked!r}, reason: ...}}`."
    )


# --- files that say only what differs from another profile ----------------------------------------


Data = Mapping[str, Any]

_OF_ONE_VERSION = (
    *("id", "title", "version", "versions", "taken_as", "variant_of", "notes", "reuse"),
    "generator",
    *("covariance", "host_covariance"),
    *("discrepancy", "discrepancy_points", "memory_discrepancy"),
)
"""Fields that a version never takes over from the one whose work it reuses."""


class TakenOver(Record):
    """`reuse` of a file that takes work over from another profile."""

    origin: str = Field(alias="from")
    commands_from: str | None = None
    to: str | None = None
    widen: float = Field(ge=1, le=100)
    reason: str = Field(min_length=1)


_read_shipped = cache(read_yaml)
"""Files build on each other, so one is asked for several times."""


def _check_origins(data: Data, *, file: str, chain: tuple[str, ...]) -> None:
    """Refuse names of unknown profiles and files that would complete each other.

    Parameters
    ----------
    chain
        Ids of the files that led here, this one last.
    """
    files = _shipped_files()
    for name, origin in _origins(data):
        if origin not in files:
            raise InputError(
                f"{file}: field '{name}': found {origin!r}; valid is the id of a shipped profile: "
                f"{did_you_mean(origin, files).removeprefix('valid are ')}"
            )
        if origin in chain:
            way = " from ".join([*chain[chain.index(origin) :], origin])
            raise InputError(
                f"{file}: field '{name}': found {origin!r}, which makes a cycle ({way}); valid is "
                "a profile that is not completed from this one."
            )
        _check_origins(
            _read_shipped(files[origin]),
            file=f"models/engines/{origin}.yaml",
            chain=(*chain, origin),
        )


def _complete(data: Data, *, file: str) -> Data:
    """The contents of an engine file with what they leave to another profile."""
    version = data.get("version", "")
    if not isinstance(version, str):
        raise InputError(
            f"{file}: field 'version': found {version!r}; valid is a version in quotes, as '7.2'."
        )
    reuse = data.get("reuse")
    varies = _is_variant(data)
    if _takes_over(reuse):
        if varies:
            raise InputError(
                f"{file}: field 'reuse.widen': found beside variant_of; valid is one of the two: a "
                "variant has the work of its profile as it is."
            )
        return _without_later(_with_reused_work(data, file=file), own=data)
    if varies:
        base = _shipped_profile(data["variant_of"])
        _refuse_unknown(data, {"work": base, "commands": base}, file=file)
        whole = _overlaid(base.model_dump(mode="json", by_alias=True), data)
        data = _without_later(whole, own=data)
    elif isinstance(reuse, Mapping) and not _holds_all_work(data):
        raise InputError(
            f"{file}: the field 'reuse.widen' is missing; valid is the factor by which ranges of "
            "reused work are wider, as this file doesn't hold all work itself."
        )
    if isinstance(reuse, Mapping) and "to" not in reuse and "version" in data:
        data = {**data, "reuse": {**reuse, "to": data["version"]}}
    return data


def _without_later(data: Data, *, own: Data) -> Data:
    """Contents of a file of Redis without the work of commands that its version doesn't have.

    Parameters
    ----------
    own
        The file without what it takes over: what it says itself stays.
    """
    if data.get("engine") != "redis" or "version" not in data:
        return data  # without a version it is refused as soon as its fields are read
    came_later = {name for each in later_commands(data["version"]) for name in work_of(each)}
    commands = {
        name: leaf
        for name, leaf in _entries(data, "commands").items()
        if name not in came_later or name in _entries(own, "commands")
    }
    return {**data, "commands": commands}


def _with_reused_work(data: Data, *, file: str) -> Data:
    """The contents of a file with rules and work of the profile that `reuse` names."""
    taken = parse(TakenOver, data["reuse"], file=file, at="reuse")
    base = _shipped_profile(taken.origin)
    counted = _shipped_profile(taken.commands_from or taken.origin)
    if base.observed is None:
        raise InputError(
            f"{file}: field 'reuse.from': found {base.id!r}, whose work was not observed; valid is "
            "a profile whose work was, or `variant_of` in place of `reuse`."
        )
    _refuse_unknown(data, {"work": base, "commands": counted}, file=file)
    own_sources = _entries(data, "sources")
    source = base.id if base.id in own_sources else None

    def reused(leaves: Mapping[str, Quantity], own: Mapping[str, Any], *, how: str) -> Any:
        return {
            name: reused_leaf(leaf, how=how, widen=taken.widen, source=source)
            for name, leaf in leaves.items()
            if name not in own
        }

    work = reused(base.work, _entries(data, "work"), how=f"as observed of {base.id}")
    commands = {}
    if data.get("commands") != {}:
        build = counted.observed.version if counted.observed is not None else counted.version
        how = f"as counted of {counted.engine}-{build}"
        commands = reused(counted.commands, _entries(data, "commands"), how=how)
    used = {leaf.source for leaf in (*work.values(), *commands.values())}
    sources = {**counted.sources, **base.sources}
    engine = data.get("engine", base.engine)
    observed = base.observed
    if observed.engine is None and base.engine != engine:
        observed = observed.model_copy(update={"engine": base.engine})
    rules = base.model_dump(mode="json", by_alias=True, exclude=set(_OF_ONE_VERSION))
    rules |= {
        "observed": observed.model_dump(mode="json", exclude_none=True),
        "sources": {
            name: each.model_dump(mode="json", exclude_none=True)
            for name, each in sources.items()
            if name in used
        },
        "work": _in_order(base.work, work, _entries(data, "work")),
        "commands": _in_order(counted.commands, commands, _entries(data, "commands")),
    }
    record = {
        "from": base.reuse.origin if base.reuse is not None else base.id,
        "to": taken.to if taken.to is not None else data.get("version", ""),
        "reason": taken.reason,
    }
    return {**_overlaid(rules, data), "reuse": record}


def reused_leaf(leaf: Quantity, *, how: str, widen: float, source: str | None) -> Quantity:
    """A number of another version: what was observed there is assumed, in a wider range.

    Parameters
    ----------
    how
        Begins `method`.
    widen
        Factor at either end of the range.
    source
        Source of a number that was observed, where the file lists one for the other profile.
    """
    if leaf.kind in ("assumed", "published", "derived"):
        return leaf
    low, high = (leaf.best if end is None else end for end in (leaf.low, leaf.high))
    return Quantity(
        value=leaf.value,
        unit=leaf.unit,
        kind="assumed",
        source=source,
        low=float(f"{low / widen:.4g}"),
        high=float(f"{high * widen:.4g}"),
        method=how if widen == 1 else f"{how}, in a range {widen:g} times as wide",
    )


def _takes_over(reuse: object) -> bool:
    return isinstance(reuse, Mapping) and "widen" in reuse


def _holds_all_work(data: Data) -> bool:
    return set(WORK_NAMES) <= set(_entries(data, "work"))


def _is_variant(data: Data) -> bool:
    """Whether a file leaves its work, or part of it, to the profile it is a variant of."""
    return isinstance(data.get("variant_of"), str) and not _holds_all_work(data)


def _origins(data: Data) -> list[tuple[str, str]]:
    """Fields that name another profile, and its id."""
    found = [("variant_of", data["variant_of"])] if _is_variant(data) else []
    reuse = data.get("reuse")
    if isinstance(reuse, Mapping) and _takes_over(reuse):
        found += [(f"reuse.{name}", reuse.get(name)) for name in ("from", "commands_from")]
    return [(field, origin) for field, origin in found if isinstance(origin, str)]


def _refuse_unknown(data: Data, bases: Mapping[str, EngineProfile], *, file: str) -> None:
    """Refuse numbers of a file that the profile it builds on doesn't have."""
    for part, base in bases.items():
        known = getattr(base, part)
        unknown = [name for name in _entries(data, part) if known and name not in known]
        if unknown:
            raise InputError(
                f"{file}: field '{part}.{unknown[0]}': found a number that {base.id} doesn't have; "
                f"{did_you_mean(str(unknown[0]), known)}"
            )


def _overlaid(base: Data, own: Data) -> dict[str, Any]:
    """A file's fields over those of another; entries of work, commands and sources one by one."""
    merged = {**base, **own}
    for part in ("work", "commands", "sources"):
        # No commands at all is a statement, no other work or sources is none.
        if _entries(own, part) or (part != "commands" and own.get(part) == {}):
            merged[part] = _in_order(base[part], base[part], own[part])
    return merged


def _in_order(names: Iterable[str], base: Data, own: Data) -> dict[str, Any]:
    """Entries of a file over those of another, in the order of `names`."""
    known = {name: own.get(name, base.get(name)) for name in names if name in own or name in base}
    return {**known, **{name: entry for name, entry in own.items() if name not in known}}


def _entries(data: Data, part: str) -> Mapping[str, Any]:
    """A part of a file that is a mapping by name; empty where it is missing or something else."""
    entries = data.get(part)
    return entries if isinstance(entries, Mapping) else {}
