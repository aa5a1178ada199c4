"""What an allocator makes of a request: `used_memory` adds up usable sizes, not requested ones."""

from __future__ import annotations

from typing import Literal

Allocator = Literal["jemalloc", "system_jemalloc", "jemalloc_3", "libc"]
"""`jemalloc`: the one that comes with Redis from 4.0 on and with Valkey, which is built with
classes every 8 bytes. `system_jemalloc`: a distribution's, with its default of 16, as Debian's
servers use. `jemalloc_3`: the one that came with Redis 2.8. `libc`: glibc's malloc."""

ALLOCATORS: tuple[Allocator, ...] = ("jemalloc", "system_jemalloc", "jemalloc_3", "libc")

_QUANTUM_BYTES = {"jemalloc": 8, "system_jemalloc": 16, "jemalloc_3": 16}
"""LG_QUANTUM: deps/Makefile passes --with-lg-quantum=3; jemalloc's own default on x86-64 and
aarch64 is 4 (jemalloc's quantum.h)."""

_SMALL_OF_3_BYTES = 3584
_PAGE_BYTES, _CHUNK_BYTES = 4096, 4 << 20
"""jemalloc 3 has classes of a doubling's quarters up to 3,584 bytes, then whole pages, then whole
chunks (its manual, "IMPLEMENTATION NOTES")."""

_CHUNK_HEADER_BYTES, _CHUNK_ALIGN_BYTES, _SMALLEST_CHUNK_BYTES = 8, 16, 32
"""glibc, malloc/malloc.c: a chunk has a size field, of which the next chunk's is the end."""


def size_class(size_bytes: int, allocator: Allocator = "jemalloc") -> int:
    """Bytes the allocator hands out for a request.

    jemalloc's classes are multiples of its quantum up to eight of them, then four per doubling.
    glibc's large blocks beyond 128 KiB come in whole pages, which is left out: at most a page each.
    """
    if allocator == "libc":
        chunk = -(-(size_bytes + _CHUNK_HEADER_BYTES) // _CHUNK_ALIGN_BYTES) * _CHUNK_ALIGN_BYTES
        return max(_SMALLEST_CHUNK_BYTES, chunk) - _CHUNK_HEADER_BYTES
    if size_bytes <= 8:
        return 8
    if allocator == "jemalloc_3" and size_bytes > _SMALL_OF_3_BYTES:
        unit = _PAGE_BYTES if size_bytes <= _CHUNK_BYTES - _PAGE_BYTES else _CHUNK_BYTES
        return -(-size_bytes // unit) * unit
    step = max(_QUANTUM_BYTES[allocator], 1 << ((size_bytes - 1).bit_length() - 3))
    return -(-size_bytes // step) * step
