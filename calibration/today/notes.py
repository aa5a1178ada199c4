"""What is found out on the way: how fields are known, what isn't, what isn't used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from forecache.models.plan.bill.today import KnownField


@dataclass
class Notes:
    """Sentences that gather while a demand is put together."""

    known: list[KnownField] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    not_used: list[str] = field(default_factory=list)
    needed: dict[str, str] = field(default_factory=dict)
    """By field of the scenario: why nothing can be told unless it gives that."""

    def found(self, name: str, value: Any, how: str) -> Any:
        """Keep how a field is known."""
        self.known.append(KnownField(name, value, how))
        return value


def rounded(value: float) -> float:
    """To four digits, as many as a plan needs."""
    return float(f"{value:.4g}")
