"""What a check is, and what it says."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison.

    Attributes
    ----------
    subject : str
        What was compared, with its unit.
    expected, found : float
        The known and the simulated value.
    low, high : float
        Where the pass range begins and ends. For a closed form it's the simulated interval, which
        must hold `expected`; for a coverage it's the range `found` must lie in.
    passed : bool
    """

    subject: str
    expected: float
    found: float
    low: float
    high: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Check:
    """A named check and the function that makes its findings.

    `alone` says that it watches the clock, so that nothing else may run.
    """

    name: str
    says: str
    run: Callable[[], list[Finding]] = field(repr=False)
    alone: bool = False


def within_interval(
    subject: str, expected: float, found: float, low: float, high: float
) -> Finding:
    """The known value lies in the simulated interval."""
    return Finding(subject, expected, found, low, high, low <= expected <= high)


def within_range(subject: str, expected: float, found: float, low: float, high: float) -> Finding:
    """The simulated value lies in a range around the known one."""
    return Finding(subject, expected, found, low, high, low <= found <= high)
