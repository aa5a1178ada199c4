"""What an allocator makes of a request: `used_memory` adds up usable sizes, not requested ones."""

from __future__ import annotations

from typing import Literal

Allocator = Literal[
    "jemalloc",
    "system_jemalloc",
    "system_jemalloc_5.3.1",
    "jemalloc_3",
    "libc",
    "libc_with_sizes",
]
"""`jemalloc`: the one that comes with Redis from 3.2 on and with Valkey, which is built with
classes every 8 bytes. `system_jemalloc`: a distribution's, with its default of 16, as Debian's
servers use; `system_jemalloc_5.3.1`: the same from jemalloc 5.3.1 on, whose blocks above 32 KiB are
whole pages. `jemalloc_3`: the one that came with Redis up to 3.0. `libc`: glibc's malloc;
`libc_with_sizes`: the same as Redis up to 3.2 counts it, in eights and with a word for the size
before each block."""

_QUANTUM_BYTES = {
    "jemalloc": 8,
    "system_jemalloc": 16,
    "system_jemalloc_5.3.1": 16,
    "jemalloc_3": 16,
}
"""LG_QUANTUM: deps/Makefile passes --with-lg-quantum=3; jemalloc's own default on x86-64 and
aarch64 is 4 (jemalloc's quantum.h)."""

_SMALL_OF_3_BYTES = 3584
PAGE_BYTES, _CHUNK_BYTES = 4096, 4 << 20
"""jemalloc 3 has classes of a doubling's quarters up to 3,584 bytes, then whole pages, then whole
chunks (its manual, "IMPLEMENTATION NOTES")."""

_PAGED_FROM_BYTES = 32 * 1024
"""Largest block of jemalloc 5.3.1 and later that has a class; larger ones are whole pages
(sc.h, USIZE_GROW_SLOW_THRESHOLD; opt.disable_large_size_classes, on by default)."""

_CHUNK_HEADER_BYTES, _CHUNK_ALIGN_BYTES, _SMALLEST_CHUNK_BYTES = 8, 16, 32
"""glibc, malloc/malloc.c: a chunk has a size field, of which the next chunk's is the end."""


_SIZE_WORD_BYTES = 8
"""PREFIX_SIZE of zmalloc.c."""


def size_class(size_bytes: int, allocator: Allocator = "jemalloc") -> int:
    """Bytes the allocator hands out for a request.

    jemalloc's classes are multiples of its quantum up to eight of them, then four per doubling.
    glibc's large blocks beyond 128 KiB come in whole pages, which is left out: at most a page each.
    """
    if allocator == "libc":
        chunk = -(-(size_bytes + _CHUNK_HEADER_BYTES) // _CHUNK_ALIGN_BYTES) * _CHUNK_ALIGN_BYTES
        return max(_SMALLEST_CHUNK_BYTES, chunk) - _CHUNK_HEADER_BYTES
    if allocator == "libc_with_sizes":
        return -(-size_bytes // 8) * 8 + _SIZE_WORD_BYTES
    if size_bytes <= 8:
        return 8
    if allocator == "jemalloc_3" and size_bytes > _SMALL_OF_3_BYTES:
        unit = PAGE_BYTES if size_bytes <= _CHUNK_BYTES - PAGE_BYTES else _CHUNK_BYTES
        return -(-size_bytes // unit) * unit
    if allocator == "system_jemalloc_5.3.1" and size_bytes > _PAGED_FROM_BYTES:
        return -(-size_bytes // PAGE_BYTES) * PAGE_BYTES
    step = max(_QUANTUM_BYTES[allocator], 1 << ((size_bytes - 1).bit_length() - 3))
    return -(-size_bytes // step) * step


def untouched_bytes(usable_bytes: int, touched_bytes: int) -> int:
    """Of a block, the whole pages behind what was written, which never become resident."""
    pages = -(-touched_bytes // PAGE_BYTES) * PAGE_BYTES
    return max(0, usable_bytes - pages)
