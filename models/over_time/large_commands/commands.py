"""Each large command, from its data to what server, network and client do and how long it lasts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from forecache.sim.errors import InputError

from .main_thread import MainThread, Speed, main_thread
from .touches import (
    TouchedSets,
    flush_touches,
    keys_touches,
    load_touches,
    member_memory_bytes,
    set_touches,
)
from .transfer import (
    TURN_BYTES,
    Party,
    Transfer,
    TransferClient,
    TransferLink,
    array_bytes,
    read_ns,
    transfer,
)
from .work import LargeWork

_READ_BYTES = 16 * 1024
_OVERSIZE_BYTES = 8 << 20
_ASYNC_NS = 50_000.0
"""FLUSHDB ASYNC on the main thread: two empty tables and a job for a background thread (assumed, 10
to 200 us)."""


@dataclass(frozen=True)
class DataPlace:
    """Who takes part: an engine's work on a host, a link, a client."""

    work: LargeWork
    server: Speed
    link: TransferLink
    client: TransferClient
    kernel_scale: float = 1.0


@dataclass(frozen=True)
class Lasting:
    """One command, from the request to the last line printed.

    Attributes
    ----------
    main
        Execution on the main thread, during which nothing else is served. For a bulk load, all of
        its commands.
    moved
        Transfer of the reply, or of the load.
    print_ns
        What the client does when all is there.
    turn_ns
        Main-thread time of one turn of the event loop that writes a piece of the reply, or executes
        what one read brought.
    turns
        How many of them there are.
    blocking
        Whether execution is one piece; a bulk load is not.
    background_ns
        Of a thread beside the main one, which no client waits for.
    """

    name: str
    main: MainThread
    moved: Transfer
    print_ns: float
    round_trip_ns: float
    elements: int
    turn_ns: float
    turns: int
    blocking: bool = True
    background_ns: float = 0.0

    @property
    def execution_ns(self) -> float:
        """Of one piece, in which everybody waits."""
        return self.main.total_ns if self.blocking else 0.0

    @property
    def main_thread_ns(self) -> float:
        """CPU time of the main thread, writing or reading included."""
        writing = self.moved.server_ns if self.blocking else 0.0
        return self.main.total_ns + writing

    @property
    def stream_ns(self) -> float:
        """In which the three work at once."""
        return self.moved.lasts_ns

    @property
    def lasts_ns(self) -> float:
        """What the client sees."""
        return self.round_trip_ns + self.execution_ns + self.stream_ns + self.print_ns

    def slower(self, factor: float) -> Lasting:
        """The same where all that anybody does takes `factor` times as long."""
        moved = self.moved
        return replace(
            self,
            main=MainThread(**{name: each * factor for name, each in vars(self.main).items()}),
            moved=replace(
                moved,
                server_ns=moved.server_ns * factor,
                network_ns=moved.network_ns * factor,
                client_ns=moved.client_ns * factor,
            ),
            print_ns=self.print_ns * factor,
            turn_ns=self.turn_ns * factor,
            background_ns=self.background_ns * factor,
        )

    @property
    def binds(self) -> Party:
        """Who most of the duration is spent on."""
        spent: dict[Party, float] = {
            "server": self.execution_ns,
            "network": self.round_trip_ns,
            "client": self.print_ns,
        }
        spent[self.moved.slowest] += self.stream_ns
        return max(spent, key=lambda party: spent[party])


def _reply(
    place: DataPlace, name: str, main: MainThread, *, elements: int, element_bytes: int
) -> Lasting:
    total = array_bytes(elements, element_bytes)
    moved = transfer(
        total,
        elements=elements,
        element_bytes=element_bytes,
        server=place.server,
        link=place.link,
        client=place.client,
        kernel_scale=place.kernel_scale,
    )
    turns = max(1, -(-int(total) // TURN_BYTES))
    return Lasting(
        name=name,
        main=main,
        moved=moved,
        print_ns=place.client.print_ns(elements, element_bytes),
        round_trip_ns=2e3 * place.link.one_way_us,
        elements=elements,
        turn_ns=moved.server_ns / turns,
        turns=turns,
    )


def set_command(
    place: DataPlace, command: str, sets: TouchedSets, *, fresh: bool = True
) -> Lasting:
    """SMEMBERS, SINTER, SUNION or SDIFF.

    Parameters
    ----------
    fresh
        The server's reply buffers and temporary sets take memory it didn't have before.
    """
    work = place.work
    result = sets.result(command)

    def counted(relation: str, built: int) -> float:
        name = command if command == "smembers" else f"{command}_{relation}"
        return work.instructions_of(
            name, members=sets.first, member_bytes=sets.member_bytes, built=built
        )

    if command == "smembers":
        instructions = counted("", 0)
    elif sets.same_key:
        instructions = counted("same", sets.first)
    else:
        # A union of two visits both; what is counted is for two sets of one size.
        larger = sets.second if command == "sunion" else sets.first
        scale = (sets.first + larger) / (2.0 * sets.first)
        share = sets.shared / sets.first
        alike = counted("equal", sets.first)
        apart = counted("disjoint", sets.union if command == "sunion" else sets.first)
        instructions = scale * (share * alike + (1.0 - share) * apart)
    touches = set_touches(command, sets, work.layout)
    new_bytes = array_bytes(result, sets.member_bytes) if result else 0.0
    if command in ("sunion", "sdiff"):
        new_bytes += member_memory_bytes(work.layout, result, sets.member_bytes)
    main = main_thread(
        instructions,
        touches,
        members=sets.steps(command),
        new_bytes=new_bytes if fresh else 0.0,
        speed=place.server,
    )
    return _reply(place, command, main, elements=result, element_bytes=sets.member_bytes)


def keys_command(place: DataPlace, *, keys: int, key_bytes: int, fresh: bool = True) -> Lasting:
    """KEYS with a pattern that all keys match."""
    instructions = place.work.instructions_of("keys", members=keys, member_bytes=0.0)
    touches = keys_touches(place.work.layout, keys, key_bytes)
    main = main_thread(
        instructions,
        touches,
        members=max(1, keys),
        new_bytes=array_bytes(keys, key_bytes) if fresh else 0.0,
        speed=place.server,
    )
    return _reply(place, "keys", main, elements=keys, element_bytes=key_bytes)


def flush(
    place: DataPlace,
    *,
    members: int,
    member_bytes: int,
    mode: Literal["sync", "async"] | None = None,
) -> Lasting:
    """FLUSHDB of sets, by their number of members in all.

    Raises
    ------
    InputError
        This version can't free in the background.
    """
    work = place.work
    if mode == "async" and not work.lazy_free:
        raise InputError(
            f"field mode: found 'async' for {work.engine} {work.version}, which frees on its main "
            "thread; valid is sync, or a version from 4.0 on."
        )
    background = mode == "async" or (mode is None and work.lazy_free_default)
    freeing = main_thread(
        work.instructions_of("flushdb", members=members, member_bytes=0.0),
        flush_touches(work.layout, members, member_bytes),
        members=max(1, members),
        new_bytes=0.0,
        speed=place.server,
    )
    main = MainThread(computing_ns=_ASYNC_NS) if background else freeing
    lasting = _reply(place, "flushdb", main, elements=0, element_bytes=0)
    if not background:
        return lasting
    return replace(lasting, background_ns=freeing.total_ns)


def large_get(place: DataPlace, *, value_bytes: int, copies: bool, fresh: bool = True) -> Lasting:
    """GET of one value of megabytes.

    Parameters
    ----------
    copies
        Whether the value is copied into a reply buffer; Redis to 3.2 and Valkey from 9.0 on send it
        from where it lies.
    """
    server = place.server
    copying = server.streamed_ns(value_bytes) + value_bytes * server.host.copy_ns_per_byte
    copying *= copies
    # jemalloc gives back what is freed at once from this size on (opt.oversize_threshold).
    fresh = fresh or value_bytes >= _OVERSIZE_BYTES
    paging = server.pages_ns(value_bytes) if copies and fresh else 0.0
    main = MainThread(computing_ns=copying, paging_ns=paging)
    return _reply(place, "get", main, elements=1, element_bytes=value_bytes)


def bulk_load(
    place: DataPlace,
    *,
    sets: int,
    members: int,
    member_bytes: int,
    key_bytes: int,
    inline: bool,
) -> Lasting:
    """`redis-cli --pipe` of a SADD for each member, one set after the other.

    The server executes what each read of its event loop brings, others are served in between.
    """
    total = sets * members
    work = place.work
    name = "import_inline" if inline else "import_protocol"
    # They were counted with a key of one letter; a line is read letter by letter.
    letters = member_bytes + (key_bytes - 1 if inline else 0)
    each = work.instructions_of(name, members=members, member_bytes=letters, built=members)
    kept = sets * member_memory_bytes(work.layout, members, member_bytes)
    main = main_thread(
        sets * each,
        load_touches(work.layout, total, member_bytes, sets=sets),
        members=max(1, total),
        new_bytes=kept,
        speed=place.server,
    )
    request = len("SADD") + key_bytes + member_bytes
    if inline:
        request += 4  # two blanks and the end of the line
    else:
        lengths = sum(len(str(n)) for n in (len("SADD"), key_bytes, member_bytes))
        request += 4 + 3 * 5 + lengths
    arriving = float(total * request)
    server = main.total_ns + read_ns(arriving, place.server, kernel_scale=place.kernel_scale)
    moved = Transfer(
        total_bytes=arriving,
        server_ns=server,
        network_ns=place.link.carry_ns(arriving),
        client_ns=place.client.send_ns(total, request),
    )
    turns = max(1, -(-int(arriving) // _READ_BYTES))
    return Lasting(
        name="import",
        main=MainThread(
            computing_ns=main.computing_ns + server - main.total_ns,
            waiting_ns=main.waiting_ns,
            paging_ns=main.paging_ns,
        ),
        moved=moved,
        print_ns=0.0,
        round_trip_ns=2e3 * place.link.one_way_us,
        elements=total,
        turn_ns=server / turns,
        turns=turns,
        blocking=False,
    )
