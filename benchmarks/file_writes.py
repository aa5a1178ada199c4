"""CPU time of appending to a file, as an append-only file is written: what `DiskTimes` assumes.

`python benchmarks/file_writes.py [FOLDER]` writes to a file in the folder, by default that for
temporary files. Without what the same calls take on /dev/null.
"""

import os
import statistics
import sys
import tempfile
import time

SIZES_BYTES = (64, 100, 1000, 4096, 16_000)
REPETITIONS, TOTAL_BYTES = 5, 20_000_000


def append_ns(descriptor: int, size_bytes: int) -> float:
    """Thread CPU ns of one write."""
    data, count = b"x" * size_bytes, max(2000, min(20_000, TOTAL_BYTES // size_bytes))
    began_ns = time.thread_time_ns()
    for _ in range(count):
        os.write(descriptor, data)
    return (time.thread_time_ns() - began_ns) / count


def main() -> None:
    """Print a line for each size."""
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    nothing = os.open(os.devnull, os.O_WRONLY)
    for size_bytes in SIZES_BYTES:
        took_ns = []
        for _ in range(REPETITIONS):
            with tempfile.NamedTemporaryFile(dir=folder) as file:
                descriptor = os.open(file.name, os.O_WRONLY | os.O_APPEND)
                took_ns.append(append_ns(descriptor, size_bytes) - append_ns(nothing, size_bytes))
                os.close(descriptor)
        print(f"{size_bytes:6,} B: {statistics.median(took_ns):6,.0f} ns a write")
    os.close(nothing)


if __name__ == "__main__":
    main()
