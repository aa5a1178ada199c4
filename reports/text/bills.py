"""Lines of bills in words and rows, shared by terminal and page."""

from collections.abc import Sequence

from forecache.models.cost.beside import BillLine, NotPriced

from .formats import count


def bill_rows(lines: Sequence[BillLine]) -> list[tuple[str, str, str, str]]:
    """What, quantity with its rate, USD, and note with the rate's source, of every line."""
    return [(each.what, _quantity(each), f"{each.usd:,.2f}", _words(each)) for each in lines]


def not_priced_sentences(missing: Sequence[NotPriced]) -> list[str]:
    """What belongs to a bill and has no known price, a sentence each."""
    return [
        f"Not priced: {each.what}, {_amount(each.quantity)} {each.unit}: {each.why}."
        for each in missing
    ]


def _quantity(line: BillLine) -> str:
    words = f"{_amount(line.quantity)} {line.unit}"
    return words if line.usd_per_unit is None else f"{words} at {line.usd_per_unit:.5g}"


def _words(line: BillLine) -> str:
    return "; ".join(part for part in (line.note, line.source) if part)


def _amount(value: float) -> str:
    return count(round(value)) if value >= 1000 else f"{value:.4g}"
