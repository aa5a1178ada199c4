"""Load generators: what a benchmark tool spends on a request.

The tool is a station of the model: in most published measurements at pipeline 1 it, or one I/O
thread, is the bottleneck. Its work is described like an engine's, in instructions and system
calls, and its speed is that of the host it runs on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import did_you_mean, parse, read_yaml, shipped
from forecache.hwprofiles.named_files import names_file
from forecache.hwprofiles.quantity import Quantity, Source, ranges_of
from forecache.hwprofiles.record import Record
from forecache.sim.errors import InputError

from .profile import check_leaf


@dataclass(frozen=True)
class GeneratorWork:
    """Work of one generator thread.

    Attributes
    ----------
    poll_rounds
        Calls of epoll_wait per batch and thread turn: tools that wait for writability need two.
    batch_syscalls
        Further cheap system calls per batch (FIONREAD).
    epoll_changes
        Calls of epoll_ctl per batch: many tools ask anew for each read and each write.
    poll_instructions
        Per turn of the tool's event loop.
    batch_instructions
        Per batch, around recv and send.
    request_instructions, reply_instructions
        Per request made and per reply taken.
    byte_instructions
        Per byte of a request or reply.
    user_scale
        Time of the tool's instructions against the host's instructions per cycle.
    kernel_scale
        Cost of the tool's socket calls against the host's micro-benchmark.
    thread_start_us
        From the start of one thread to the start of the next.
    text_get_instructions
        Further ones of a GET in Memcached's text protocol, against the same in the Redis protocol.
    """

    poll_rounds: float
    batch_syscalls: float
    epoll_changes: float
    poll_instructions: float
    batch_instructions: float
    request_instructions: float
    reply_instructions: float
    byte_instructions: float
    user_scale: float
    kernel_scale: float
    thread_start_us: float
    text_get_instructions: float = 0.0


@dataclass(frozen=True)
class GeneratorRules:
    """What a tool does in which order; `GeneratorProfile` says what each means."""

    spins_when_due: bool = False
    connects_in_blocks: bool = False
    refills: bool = False
    read_bytes: int = 16_384
    counts_first_read: bool = False
    polls_to_send: bool = False


PLAIN_RULES = GeneratorRules()
"""A tool that has no rules of its own."""

GENERATOR_NAMES = tuple(field.name for field in fields(GeneratorWork))
_OPTIONAL_NAMES = {"text_get_instructions"}


class GeneratorProfile(Record):
    """A tool's work, every number with its origin."""

    # Frozen: shipped profiles are read once and handed to everybody.
    id: str
    title: str
    sources: dict[str, Source]
    spins_when_due: bool = False
    """Whether it polls without sleeping while it has a request to send soon."""
    connections: Literal["in_turn", "in_blocks"] = "in_turn"
    """The order in which the tool's threads connect their clients, which engines number in that
    order: one thread's after the other's, or in turn."""
    refills: bool = False
    """Whether a client sends a request for each reply that it reads, and so keeps its pipeline
    full; else it sends batches and waits for all replies."""
    read_bytes: int = Field(default=16_384, ge=64)
    """Most bytes of replies that one read takes."""
    counts_first_read: bool = False
    """Whether the latency of a batch ends when the tool begins to read the first reply to it; else
    that of a reply when it has been read."""
    polls_to_send: bool = False
    """Whether a client sends its next batch when the tool's next poll says that its socket takes
    it; else at once. Its socket is taken out of the epoll set and put in again for each direction,
    which leaves memory to the kernel's RCU, for which idle cores keep their timer tick."""
    work: dict[str, Quantity]

    @model_validator(mode="after")
    def _complete(self) -> GeneratorProfile:
        wrong = (set(self.work) | _OPTIONAL_NAMES) ^ set(GENERATOR_NAMES)
        if wrong:
            raise ValueError(f"entries under work: {', '.join(GENERATOR_NAMES)}")
        for name, leaf in self.work.items():
            check_leaf(name, leaf, self.sources)
        return self

    def generator_work(self, values: Mapping[str, float] | None = None) -> GeneratorWork:
        """The work as plain numbers, some of them replaced by `values`."""
        work = GeneratorWork(**{name: leaf.best for name, leaf in self.work.items()})
        return replace(work, **values) if values else work

    @property
    def rules(self) -> GeneratorRules:
        """Those of the tool."""
        return GeneratorRules(
            self.spins_when_due,
            self.connections == "in_blocks",
            self.refills,
            self.read_bytes,
            self.counts_first_read,
            self.polls_to_send,
        )

    def uncertain(self) -> dict[str, tuple[float, float, float]]:
        """(low, value, high) of each work number that has a range."""
        return ranges_of(self.work)


def list_generators() -> list[GeneratorProfile]:
    """All shipped load generators, by id."""
    return [load_generator(name) for name in sorted(_shipped_files())]


def load_generator(name: str) -> GeneratorProfile:
    """A load generator by the tool's name, or from the file that `forecache profile --tool` wrote.

    Raises
    ------
    InputError
        No tool has that name, or the file is no profile of one.
    """
    if names_file(name):
        return parse(GeneratorProfile, read_yaml(name), file=name)
    files = _shipped_files()
    key = name.replace("_", "-")
    if key not in files:
        raise InputError(f"load_generator.tool: found {name!r}; {did_you_mean(key, files)}")
    return _shipped_profile(key)


@cache
def _shipped_files() -> Mapping[str, Path]:
    return shipped("forecache.models.engines", "generators")


@cache
def _shipped_profile(key: str) -> GeneratorProfile:
    path = _shipped_files()[key]
    return parse(GeneratorProfile, read_yaml(path), file=f"models/engines/generators/{key}.yaml")
