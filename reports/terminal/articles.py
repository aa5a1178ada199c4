"""`forecache validate articles` on a terminal."""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from forecache.calibration.validate.articles import JudgedClaim, JudgedClaims

from ..text.claims import BAD, amount, claimed, error, named

_SHOWN = {
    "prediction": "Predictions",
    "consistent": "Consistent with their own inputs",
    "arithmetic": "Arithmetic",
}


def print_articles(result: JudgedClaims, console: Console) -> None:
    """Print every claim that has a number to compare, in words, and how many hold."""
    for role, heading in _SHOWN.items():
        console.print(Text(heading, style="bold"))
        for claim in result.rows:
            if claim.role == role:
                _print_claim(claim, console)
        console.print()
    for role in _SHOWN:
        counts = result.summary.get(role, {})
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        console.print(Text(f"{role}: {words}"))


def _print_claim(claim: JudgedClaim, console: Console) -> None:
    """What is claimed, in words and as a number, what is predicted, and the verdict."""
    verdict = Text(claim.verdict, style="bold red" if claim.verdict in BAD else "green")
    seen = ", seen before its model was changed" if claim.changed else ""
    console.print(Text.assemble((named(claim), "bold"), f" ({claim.article}): ", verdict, seen))
    note = f" ({claim.note})" if claim.note else ""
    _indented(f"{claim.statement}{note}", console)
    unit = claim.claimed.unit if claim.claimed else ""
    _indented(
        f"claimed {claimed(claim)}; predicted {amount(claim.predicted)} {unit}"
        f" ({error(claim)})".replace(" %", "%"),
        console,
    )


def _indented(text: str, console: Console) -> None:
    console.print(Padding(Text(text), (0, 0, 0, 2)))
