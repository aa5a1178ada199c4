"""A contradiction."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Breach:
    """An invariant that an answer breaks.

    Attributes
    ----------
    invariant
        Its name, as docs/statistics.md lists it.
    numbers
        Which numbers contradict each other.
    """

    invariant: str
    numbers: str


class Held:
    """Collects what doesn't hold."""

    def __init__(self) -> None:
        self.breaches: list[Breach] = []

    def that(self, invariant: str, holds: bool, numbers: str) -> None:
        """Note a breach unless it holds."""
        if not holds:
            self.breaches.append(Breach(invariant, numbers))

    def not_above(
        self, invariant: str, small: float, large: float, what: str, *, by: float = 1e-6
    ) -> None:
        """`small` is at most `large`, but for a share `by`."""
        self.that(
            invariant,
            small <= large + by * abs(large) + 1e-12,
            f"{what}: {small:.6g} above {large:.6g}",
        )

    def adds_up(
        self, invariant: str, total: float, parts: Sequence[float], what: str, *, by: float = 1e-6
    ) -> None:
        """Parts add up to a total, but for a share `by` of all of them."""
        added = sum(parts)
        size = max(abs(total), sum(abs(part) for part in parts))
        self.that(
            invariant,
            abs(total - added) <= by * size + 1e-9,
            f"{what}: {total:.9g}, its parts {added:.9g}",
        )
