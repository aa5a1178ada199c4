"""Requests as ElastiCache processing units (ECPU), what serverless caches are billed in.

Sources: Amazon's description (an ECPU for each kilobyte that a read or write transfers, at least
one; commands that take more processor time in proportion), and an article that held it against the
meter (a GET that misses counts one; a kilobyte is 1,000 bytes: 3,200 B count 3.2).
"""

from __future__ import annotations

BYTES_PER_ECPU = 1000.0


def ecpu_of_transfer(transferred_bytes: float) -> float:
    """ECPU of a simple read or write of one value: one for each kilobyte, at least one."""
    return max(1.0, transferred_bytes / BYTES_PER_ECPU)


def ecpu_of_get(value_bytes: float, *, hit_rate: float) -> float:
    """Mean ECPU of a GET; one that misses transfers nothing and counts one."""
    return hit_rate * ecpu_of_transfer(value_bytes) + (1.0 - hit_rate)


def ecpu_of_script(
    processor_us: float, *, transferred_bytes: float = 0.0, us_per_ecpu: float
) -> float:
    """ECPU of a command that computes, such as EVAL: the larger of its time and its transfer.

    Parameters
    ----------
    processor_us
        Processor time of one call, in microseconds.
    us_per_ecpu
        Processor time that counts one ECPU, in microseconds.
    """
    return max(ecpu_of_transfer(transferred_bytes), processor_us / us_per_ecpu)
