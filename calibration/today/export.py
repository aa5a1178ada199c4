"""An export of AWS's cost and usage report: CSV with a line for each item that was billed.

Both namings of columns are read: `lineItem/UsageType` of the report (CUR), and
`line_item_usage_type` of data exports (CUR 2.0) and of the report in Athena. A file may be packed
with gzip. Files are read line by line, since those of a large account have millions.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from forecache.sim.errors import InputError

from ..observe.readers.lines import Place, shown

_COST = "line_item_unblended_cost"
_USAGE = "line_item_usage_type"
_PRODUCT = "line_item_product_code"
NEEDED = (_PRODUCT, _USAGE, _COST, "line_item_line_item_type", "line_item_usage_start_date")

_SAVINGS = "savings_plan_savings_plan_effective_cost"
_UNUSED = (
    "reservation_unused_amortized_upfront_fee_for_billing_period",
    "reservation_unused_recurring_fee",
)
_USED = frozenset(
    {
        *(*NEEDED, *_UNUSED, _SAVINGS, "reservation_effective_cost", "line_item_usage_amount"),
        *("line_item_usage_end_date", "line_item_currency_code", "line_item_operation"),
        *("line_item_resource_id", "line_item_usage_account_id", "product_cache_engine"),
        *("product_region", "product_region_code", "reservation_reservation_a_r_n"),
    }
)

_MOST_USD = 1e12
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_EPOCH = re.compile(r"[0-9]{10}(?:[0-9]{3})?", re.ASCII)


@dataclass(frozen=True)
class ExportLine:
    """A line of an export; texts are empty where it has none.

    Attributes
    ----------
    usd
        Unblended cost.
    effective_usd
        The same with commitments spread over what they cover; `usd` where the export has no
        columns for it.
    """

    place: Place
    product: str
    usage_type: str
    item_type: str
    operation: str
    engine: str
    region: str
    account: str
    resource: str
    begins: datetime
    ends: datetime
    amount: float
    usd: Fraction
    effective_usd: Fraction


@dataclass(frozen=True)
class Cells:
    """A line of a CSV file, by the plain name of its column; `names` are those of the file."""

    place: Place
    texts: dict[str, str]
    names: dict[str, str]

    def text(self, *columns: str) -> str:
        """The first of some columns that has a text; empty where none has."""
        return next((self.texts[name] for name in columns if self.texts.get(name)), "")

    def number(self, column: str, *, lowest: float, highest: float) -> float | None:
        """A number; None where its cell is empty or the file has no such column."""
        text = self.texts.get(column, "")
        if not text:
            return None
        return self.place.decimal(text, f"{self.names[column]!r}", lowest=lowest, highest=highest)

    def money(self, column: str) -> Fraction | None:
        """An amount, exact."""
        if self.number(column, lowest=-_MOST_USD, highest=_MOST_USD) is None:
            return None
        return Fraction(self.texts[column])

    def time(self, column: str) -> datetime | None:
        """A time; None where its cell is empty."""
        text = self.texts.get(column, "")
        return time_of(text, self.place, self.names[column]) if text else None


def plain(column: str) -> str:
    """A column in the naming of data exports: `lineItem/UsageType` as `line_item_usage_type`."""
    return _CAPITAL.sub("_", column.strip().replace("/", "_").replace(":", "_")).lower()


def time_of(text: str, place: Place, column: str) -> datetime:
    """A time in ISO 8601, with slashes as in the console, or in seconds or milliseconds."""
    text = text.strip()
    try:
        if _EPOCH.fullmatch(text):
            found = datetime.fromtimestamp(int(text[:10]), UTC)
        else:
            found = datetime.fromisoformat(text.replace("/", "-"))
    except (ValueError, OverflowError):
        found = None
    if found is None or not 2000 <= found.year <= 2100:
        raise place.wrong(
            f"{shown(text)} as {column[:60]!r}", valid="a time such as 2026-10-01T00:00:00Z"
        )
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


@contextmanager
def opened(path: str | Path) -> Iterator[io.TextIOWrapper]:
    """A text file, unpacked if its name ends in .gz."""
    try:
        with Path(path).open("rb") as raw:
            packed = str(path).endswith(".gz")
            data = gzip.GzipFile(fileobj=raw) if packed else raw
            with io.TextIOWrapper(data, encoding="utf-8-sig", newline="") as text:
                yield text
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: found bytes that are no UTF-8; valid is a CSV file.") from None
    except (gzip.BadGzipFile, zlib.error, EOFError):
        raise InputError(f"{path}: found a damaged file; valid is one packed with gzip.") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or 'it cannot be read'}.") from None


Row = tuple[Place, list[str]]


def table_in(lines: Iterable[str], *, file: str) -> tuple[Row, Iterator[Row]]:
    """The line that names the columns of a CSV file, and those after it; blank ones are skipped."""
    rows = _rows(lines, file)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{file}: found no line; valid is a CSV file whose first names columns.")
    return first, rows


def cells_in(
    first: Row, rows: Iterator[Row], used: Collection[str] | None = None
) -> Iterator[Cells]:
    """The lines of a table by column.

    Parameters
    ----------
    used
        Plain names of the columns that may not be there twice; all of them without it. Tags of
        one's own may be named alike.

    Raises
    ------
    InputError
        A column is named twice, or a line has another number of cells.
    """
    names = _names(first[1], first[0], used)
    for place, cells in rows:
        if len(cells) != len(names):
            raise place.wrong(f"{len(cells)} cells", valid=f"{len(names)}, one for each column")
        texts = dict(zip(names, (cell.strip() for cell in cells), strict=True))
        yield Cells(place, texts, names)


def columns_of(path: str | Path) -> list[str]:
    """The columns of a CSV file, as it names them."""
    with opened(path) as text:
        (_, columns), _ = table_in(text, file=str(path))
    return [column.strip() for column in columns]


def _rows(lines: Iterable[str], file: str) -> Iterator[Row]:
    reader = csv.reader(lines, strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield Place(file, reader.line_num), cells
    except csv.Error as error:
        place = Place(file, reader.line_num)
        raise place.wrong(f"{error}", valid="cells between commas") from None


def is_export(columns: Sequence[str]) -> bool:
    """Whether columns are those of an export of a bill."""
    return _USAGE in {plain(column) for column in columns}


def export_lines(path: str | Path) -> Iterator[ExportLine]:
    """The lines of an export in a file; errors as of `export_lines_in` and `opened`."""
    with opened(path) as text:
        yield from export_lines_in(text, file=str(path))


def export_lines_in(lines: Iterable[str], *, file: str) -> Iterator[ExportLine]:
    """The lines of an export."""
    first, rows = table_in(lines, file=file)
    names = [plain(column) for column in first[1]]
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise first[0].wrong(
            f"no column {missing[0]}", valid="an export with it, or lineItem/... of the same name"
        )
    for cells in cells_in(first, rows, _USED):
        yield _line(cells)


def _line(cells: Cells) -> ExportLine:
    usd = cells.money(_COST)
    begins = cells.time("line_item_usage_start_date")
    if usd is None or begins is None:
        column = _COST if usd is None else "line_item_usage_start_date"
        raise cells.place.wrong(f"nothing as {cells.names[column]!r}", valid="a cell with one")
    ends = cells.time("line_item_usage_end_date") or begins
    if ends < begins:
        raise cells.place.wrong("an end before its start", valid="an end after it")
    currency = cells.text("line_item_currency_code")
    if currency not in ("", "USD"):
        raise cells.place.wrong(f"the currency {shown(currency)}", valid="USD")
    amount = cells.number("line_item_usage_amount", lowest=-1e18, highest=1e18)
    item_type = cells.text("line_item_line_item_type")
    return ExportLine(
        place=cells.place,
        product=cells.text(_PRODUCT),
        usage_type=cells.text(_USAGE),
        item_type=item_type,
        operation=cells.text("line_item_operation"),
        engine=cells.text("product_cache_engine"),
        region=cells.text("product_region_code", "product_region"),
        account=cells.text("line_item_usage_account_id"),
        resource=cells.text("line_item_resource_id"),
        begins=begins,
        ends=ends,
        amount=amount or 0.0,
        usd=usd,
        effective_usd=_effective(cells, item_type, usd),
    )


def _effective(cells: Cells, item_type: str, usd: Fraction) -> Fraction:
    """What an item costs if commitments are spread over what they cover, as AWS adds it up.

    Source: the query "amortized cost" of AWS's Well-Architected Labs (CUR queries).
    """
    if item_type == "SavingsPlanNegation":
        return Fraction(0) if _SAVINGS in cells.names else usd
    if item_type == "SavingsPlanCoveredUsage":
        found = cells.money(_SAVINGS)
    elif item_type == "DiscountedUsage":
        found = cells.money("reservation_effective_cost")
    elif item_type == "RIFee":
        parts = [cells.money(name) for name in _UNUSED]
        known = [part for part in parts if part is not None]
        found = sum(known, Fraction(0)) if known else None
    elif item_type == "Fee" and cells.text("reservation_reservation_a_r_n"):
        found = Fraction(0)
    else:
        found = None
    return usd if found is None else found


def _names(cells: Sequence[str], place: Place, used: Collection[str] | None) -> dict[str, str]:
    """Plain names of columns, with those of the file."""
    names: dict[str, str] = {}
    for number, cell in enumerate(cells):
        name = plain(cell)
        if name in names:
            if used is None or name in used:
                raise place.wrong(f"the column {shown(cell)} twice", valid="every column once")
            name = f"{name} {number}"
        names[name] = cell.strip()
    return names
