"""Times of a disk and of a fork, which no host profile gives."""

from typing import NamedTuple

from ..footprint.resident import PAGES_PER_WRITE

FILE_WRITE_NS = 450.0
"""One write to the append-only file beside its bytes: the way through the file system into the page
cache. 300 to 400 ns on tmpfs and ext4 of a Zen 5 guest (`python benchmarks/file_writes.py`);
assumed range: 250 to 2,000."""

FILE_BYTE_NS = 0.45
"""A byte of it: pages of the cache are found, filled and marked to be written back. 0.36 ns on
tmpfs and 0.46 on ext4 of that guest; assumed range: 0.25 to 1.2."""

FORK_MS_PER_GIB = 13.0
"""The main thread copies its page tables: 12.8 ms for a GiB on a virtual machine, 13.1 on a
physical one (Redis documentation, "Diagnosing latency issues"); 89 ms for 5 GB on a c7g.2xlarge are
19 (valkey issue 2767). Assumed range: 9 to 24."""

COPY_ON_WRITE_NS = 1200.0
"""First write to a page while a child lives: a fault and 4 KiB copied (assumed, 600 to 3,000)."""


class DiskTimes(NamedTuple):
    """What the constants above say, or a draw of them."""

    file_write_ns: float = FILE_WRITE_NS
    fork_ms_per_gib: float = FORK_MS_PER_GIB
    copy_on_write_ns: float = COPY_ON_WRITE_NS
    pages_per_write: float = PAGES_PER_WRITE
    file_byte_ns: float = FILE_BYTE_NS


ASSUMED_DISK = DiskTimes()

DISK_RANGES = {
    "file_write_ns": (250.0, FILE_WRITE_NS, 2000.0),
    "file_byte_ns": (0.25, FILE_BYTE_NS, 1.2),
    "fork_ms_per_gib": (9.0, FORK_MS_PER_GIB, 24.0),
    "copy_on_write_ns": (600.0, COPY_ON_WRITE_NS, 3000.0),
    "pages_per_write": (1.5, PAGES_PER_WRITE, 5.0),
}
"""(low, value, high) by the field of `DiskTimes`."""
