"""`forecache validate articles` on a terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..text.claims import BAD, amount, claimed, error, named
from ..text.shapes import Json, mapping, rows

_SHOWN = {
    "prediction": "Predictions",
    "consistent": "Consistent with their own inputs",
    "arithmetic": "Arithmetic",
}


def print_articles(result: Json, console: Console) -> None:
    """Print every claim that has a number to compare, in words, and how many hold."""
    for role, heading in _SHOWN.items():
        console.print(Text(heading, style="bold"))
        for row in rows(result, "rows"):
            if row["role"] == role:
                _print_claim(row, console)
        console.print()
    for role in _SHOWN:
        counts = mapping(mapping(result, "summary"), role)
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        console.print(Text(f"{role}: {words}"))


def _print_claim(row: Json, console: Console) -> None:
    """What is claimed, in words and as a number, what is predicted, and the verdict."""
    verdict = Text(str(row["verdict"]), style="bold red" if row["verdict"] in BAD else "green")
    seen = ", seen before its model was changed" if row.get("changed") else ""
    console.print(Text.assemble((named(row), "bold"), f" ({row['article']}): ", verdict, seen))
    note = f" ({row['note']})" if row.get("note") else ""
    _indented(f"{row['statement']}{note}", console)
    _indented(
        f"claimed {claimed(row)}; predicted {amount(row['predicted'])} {_unit(row)}"
        f" ({error(row)})".replace(" %", "%"),
        console,
    )


def _unit(row: Json) -> str:
    return str(mapping(row, "claimed")["unit"])


def _indented(text: str, console: Console) -> None:
    console.print(Padding(Text(text), (0, 0, 0, 2)))
