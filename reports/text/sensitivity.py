"""What is said about the inputs that move an answer."""

from collections.abc import Sequence

from forecache.models.advice.sensitivity.results import Indices, InputIndex, Sensitivity

from .formats import is_number, margin, percent
from .settings import setting_name, setting_text, value_text

_QUANTITIES = {"throughput_rps": "throughput", "p99_ms": "p99"}


def sensitivity_title(found: Sensitivity) -> str:
    """Return which quantity of which setting is moved."""
    at = setting_text(found.at)
    return f"What moves {_QUANTITIES[found.quantity]}" + (f" at {at}" if at else "")


def sensitivity_groups(found: Sensitivity) -> list[tuple[str, Indices]]:
    """Return the sets of inputs with their names."""
    groups = [("Uncertain numbers", found.uncertain)]
    return groups + ([("What you can choose", found.choices)] if found.choices else [])


def input_name(index: InputIndex) -> str:
    """Return an input as a reader knows it: a number by its name, a field with what was tried."""
    if index.tried is not None:
        return f"{setting_name(index.name)} {_tried(index.tried)}"
    return f"{index.inputs} others together" if index.inputs > 1 else index.name


def _tried(values: Sequence[object]) -> str:
    numbers = [value for value in values if is_number(value)]
    if len(numbers) == len(values):
        return f"{value_text(min(numbers))}–{value_text(max(numbers))}"
    return ", ".join(map(value_text, values))


def share_with_bounds(index: InputIndex) -> str:
    """Return an index with its interval, `40% (34–46)`."""
    total = index.total
    return f"{percent(total.value)} ({100 * total.low:.0f}–{100 * total.high:.0f})"


def basis_phrase(indices: Indices) -> str:
    """Return what the indices rest on, and what chance has to do with it."""
    if indices.basis == "surrogate":
        return "by bounds and a regression, since simulating them takes too long"
    chance = "" if indices.chance is None else f"; chance {_small(indices.chance.value)}"
    return f"{indices.runs:,} simulations{chance}"


def spread_phrase(name: str, indices: Indices) -> str:
    """Return by how much all inputs of a set move the quantity, as one standard deviation."""
    spread = "its rank" if indices.ranks else f"it by {margin(indices.spread)}"
    move = "move" if name.endswith("numbers") else "moves"
    return f"{name} {move} {spread}, one standard deviation ({basis_phrase(indices)})"


def sensitivity_notes(found: Sensitivity) -> list[str]:
    """Return what a reader has to know about the indices."""
    uncertain = found.uncertain
    missed = _small(found.surrogate_unexplained)
    notes = [
        "Share: of the variance, what is left if all other inputs of the list are known "
        "(total-order Sobol index, 95% interval). Shares overlap where inputs act together, and "
        "can add to more than 100%.",
        f"Bounds and a regression miss {missed} of the first variance.",
    ]
    if uncertain.inert:
        notes.append(f"{uncertain.inert} more uncertain numbers change nothing here.")
    if uncertain.ranks or (found.choices is not None and found.choices.ranks):
        notes.append("At some inputs the server is overloaded: the shares are of the rank then.")
    if found.choices is None:
        notes.append("What you can choose takes too long to simulate.")
    return notes


def _small(share: float) -> str:
    return f"{share:.1%}" if share < 0.095 else percent(share)
