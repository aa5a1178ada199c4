"""How GET and SET are written in what an engine speaks; `native/` counts the replies."""

from collections.abc import Callable
from dataclasses import dataclass

Parts = tuple[bytes, bytes]
"""What a command has before the digits of its key, and behind them."""


@dataclass(frozen=True)
class Protocol:
    """What an engine speaks.

    Attributes
    ----------
    name
        As `native/loadgen.h` has it, there in capitals.
    get
        A GET, by the start of the key and the length of the whole key.
    set_value
        A SET, by the same and the value.
    """

    name: str
    get: Callable[[bytes, int], Parts]
    set_value: Callable[[bytes, int, bytes], Parts]


def _resp_get(prefix: bytes, key_bytes: int) -> Parts:
    return b"*2\r\n$3\r\nGET\r\n$%d\r\n%s" % (key_bytes, prefix), b"\r\n"


def _resp_set(prefix: bytes, key_bytes: int, value: bytes) -> Parts:
    start = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s" % (key_bytes, prefix)
    return start, b"\r\n$%d\r\n%s\r\n" % (len(value), value)


def _text_get(prefix: bytes, _key_bytes: int) -> Parts:
    return b"get " + prefix, b"\r\n"


def _text_set(prefix: bytes, _key_bytes: int, value: bytes) -> Parts:
    # No flags, and never to expire.
    return b"set " + prefix, b" 0 0 %d\r\n%s\r\n" % (len(value), value)


RESP = Protocol("resp", _resp_get, _resp_set)
"""Redis's protocol, in its second version."""

MEMCACHED = Protocol("memcached", _text_get, _text_set)
"""Memcached's text protocol (doc/protocol.txt)."""
