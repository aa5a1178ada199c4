"""Writes populations of keys into a server, as the footprint model describes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from forecache.calibration.drive.connection import RespClient
from forecache.models.footprint.schema import (
    Hashes,
    Lists,
    Population,
    Sets,
    SortedSets,
    Streams,
    Strings,
)

Words = tuple[str | int, ...]

_ITEMS_PER_COMMAND = 100
_BATCH_BYTES = 64 * 1024
_EXPIRES_IN_S = 1_000_000

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_SCATTER = 2_654_435_761_357_913
"""Odd and no multiple of 3: numbers stay different modulo powers of 36."""


def load(client: RespClient, population: Population) -> None:
    """Write every key, member by member, and times to live for the first share of the keys."""
    _send(client, _writes(population))


def look_up(client: RespClient, population: Population, *, one_by_one: bool = False) -> None:
    """Look every key, member and field up once, so that all tables finish to move.

    Parameters
    ----------
    one_by_one
        Members of sets too, for engines that don't look several up at once (before Redis 6.2).
    """
    _send(client, _reads(population, one_by_one=one_by_one))


def commands_of(population: Population) -> int:
    """Different commands that both take."""
    lone = isinstance(population, Strings | Lists | Streams)
    return (2 if lone else 3) + (0 if isinstance(population, Strings) else population.ttl > 0)


def _writes(population: Population) -> Iterator[Words]:
    expiring = round(population.ttl * population.keys)
    for number in range(population.keys):
        key = _key(number, population.key_bytes)
        if isinstance(population, Strings):
            ((size, _),) = population.sizes
            value = _integer(number, size) if population.integers else "v" * size
            yield ("SET", key, value, *(("EX", _EXPIRES_IN_S) if number < expiring else ()))
            continue
        yield from _items(population, key)
        if number < expiring:
            yield ("EXPIRE", key, _EXPIRES_IN_S)


def _items(population: Sets | Hashes | SortedSets | Lists | Streams, key: str) -> Iterator[Words]:
    match population:
        case Sets(members=members):
            for some in _groups(members):
                yield ("SADD", key, *(_member(population, i) for i in some))
        case Hashes(fields=fields):
            value = "v" * population.value_bytes
            for some in _groups(fields):
                pairs = ((_name("m", i, population.field_bytes), value) for i in some)
                yield ("HMSET", key, *(word for pair in pairs for word in pair))
        case SortedSets(members=members):
            for some in _groups(members):
                pairs = (
                    (_integer(i, population.score_digits), _name("m", i, population.member_bytes))
                    for i in some
                )
                yield ("ZADD", key, *(word for pair in pairs for word in pair))
        case Lists(elements=elements):
            for some in _groups(elements):
                yield ("RPUSH", key, *(_name("m", i, population.element_bytes) for i in some))
        case Streams(entries=entries):
            pair = (_name("f", 0, population.field_bytes), "v" * population.value_bytes)
            yield from (("XADD", key, "*", *pair) for _ in range(entries))


def _reads(population: Population, *, one_by_one: bool) -> Iterator[Words]:
    for number in range(population.keys):
        key = _key(number, population.key_bytes)
        yield ("EXISTS", key)
        match population:
            case Sets(members=members) if one_by_one:
                yield from (("SISMEMBER", key, _member(population, i)) for i in range(members))
            case SortedSets(members=members) if one_by_one:
                size = population.member_bytes
                yield from (("ZSCORE", key, _name("m", i, size)) for i in range(members))
            case Sets(members=members):
                for some in _groups(members):
                    yield ("SMISMEMBER", key, *(_member(population, i) for i in some))
            case Hashes(fields=fields):
                for some in _groups(fields):
                    yield ("HMGET", key, *(_name("m", i, population.field_bytes) for i in some))
            case SortedSets(members=members):
                for some in _groups(members):
                    yield ("ZMSCORE", key, *(_name("m", i, population.member_bytes) for i in some))


def _member(population: Sets, number: int) -> str:
    size = population.member_bytes
    return _integer(number, size) if population.integers else _name("m", number, size)


def _name(letter: str, number: int, length: int) -> str:
    """A name of the given length in bytes, unlike all others of its letter."""
    return letter + str(number).rjust(length - 1, "0")


def _key(number: int, length: int) -> str:
    """A name that falls into a slot as if at random; running numbers would not: CRC16 is linear."""
    digits = min(length - 1, 12)
    scattered = number * _SCATTER % len(_ALPHABET) ** digits
    name = ""
    for _ in range(digits):
        scattered, place = divmod(scattered, len(_ALPHABET))
        name += _ALPHABET[place]
    return "k" + name.rjust(length - 1, "0")


def _integer(number: int, digits: int) -> str:
    return str(10 ** (digits - 1) + number)


def _groups(count: int) -> Iterator[range]:
    for first in range(0, count, _ITEMS_PER_COMMAND):
        yield range(first, min(count, first + _ITEMS_PER_COMMAND))


def _send(client: RespClient, commands: Iterable[Words]) -> None:
    """Commands in pipelines of about `_BATCH_BYTES`."""
    rest = iter(commands)
    while first := next(rest, None):
        length = sum(len(str(word)) for word in first)
        more = max(0, _BATCH_BYTES // length - 1)
        client.pipeline([first, *islice(rest, min(more, 500))])
