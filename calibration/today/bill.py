"""What an export of today's bill tells: caches, their cost, what runs, and what has no place."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

from forecache.hwprofiles import list_instances
from forecache.hwprofiles.files import did_you_mean
from forecache.models.cost.bill import BACKUPS, SUPPORT
from forecache.models.plan.results import (
    BilledCache,
    BilledLine,
    FromBill,
    KnownField,
    UnplacedLine,
)
from forecache.models.prices.table import HOURS_A_MONTH, NODE_PRICES, load_prices, served_engine
from forecache.sim.errors import InputError

from ..observe.readers.lines import Place, shown

# --- an export of AWS's cost and usage report -----------------------------------------------------

# An export of AWS's cost and usage report: CSV with a line for each item that was billed.
#
# Both namings of columns are read: `lineItem/UsageType` of the report (CUR), and
# `line_item_usage_type` of data exports (CUR 2.0) and of the report in Athena. A file may be packed
# with gzip. Files are read line by line, since those of a large account have millions.


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
        return parse_time(text, self.place, self.names[column]) if text else None


def plain_column(column: str) -> str:
    """A column in the naming of data exports: `lineItem/UsageType` as `line_item_usage_type`."""
    return _CAPITAL.sub("_", column.strip().replace("/", "_").replace(":", "_")).lower()


def parse_time(text: str, place: Place, column: str) -> datetime:
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
def open_text(path: str | Path) -> Iterator[io.TextIOWrapper]:
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
    """
    names = _names(first[1], first[0], used)
    for place, cells in rows:
        if len(cells) != len(names):
            raise place.wrong(f"{len(cells)} cells", valid=f"{len(names)}, one for each column")
        texts = dict(zip(names, (cell.strip() for cell in cells), strict=True))
        yield Cells(place, texts, names)


def columns_of(path: str | Path) -> list[str]:
    """The columns of a CSV file, as it names them."""
    with open_text(path) as text:
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
    return _USAGE in {plain_column(column) for column in columns}


def export_lines(path: str | Path) -> Iterator[ExportLine]:
    """The lines of an export in a file; errors as of `export_lines_in` and `open_text`."""
    with open_text(path) as text:
        yield from export_lines_in(text, file=str(path))


def export_lines_in(lines: Iterable[str], *, file: str) -> Iterator[ExportLine]:
    """The lines of an export."""
    first, rows = table_in(lines, file=file)
    names = [plain_column(column) for column in first[1]]
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise first[0].wrong(
            f"no column {missing[0]}", valid="an export with it, or lineItem/... of the same name"
        )
    for cells in cells_in(first, rows, _USED):
        yield _export_line(cells)


def _export_line(cells: Cells) -> ExportLine:
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
        name = plain_column(cell)
        if name in names:
            if used is None or name in used:
                raise place.wrong(f"the column {shown(cell)} twice", valid="every column once")
            name = f"{name} {number}"
        names[name] = cell.strip()
    return names


# --- where lines belong: to a cache and a kind of charge, or to nothing, and why ------------------


SERVICE = "AmazonElastiCache"

ON_DEMAND = "nodes on demand"
RESERVED = "reserved nodes"
SAVINGS_PLAN = "nodes in a savings plan"
DURABILITY = "durable writes"
SERVERLESS = "serverless"
TRAFFIC = "traffic"
DISCOUNTS = "discounts"
NODE_CHARGES = (ON_DEMAND, RESERVED, SAVINGS_PLAN)
"""Each hour of a node is one of them."""

_REGION = re.compile(r"[A-Z]{2,4}[0-9]{0,2}-(.+)")
_NODE = re.compile(r"(?:(.+)-)?NodeUsage:(cache\.[a-z0-9.]+)")
_COMMITTED = re.compile(r"HeavyUsage:(cache\.[a-z0-9.]+)")
_SERVERLESS = re.compile(r"(?:ElastiCache:)?(?:CachedData|ElastiCacheProcessingUnits)(?::.*)?")
_BACKUP = re.compile(r"(?:ElastiCache:)?BackupUsage(?::.*)?")
_BYTES = re.compile(r"(?:DataTransfer|ElastiCache|.*-AWS)-[A-Za-z-]*Bytes(?:-.*)?")
_MEMBER = re.compile(r"(.+?)(?:-([0-9]{4}))?-([0-9]{3})")

_BY_ITEM = {
    "Usage": ON_DEMAND,
    "DiscountedUsage": RESERVED,
    "SavingsPlanCoveredUsage": SAVINGS_PLAN,
    "SavingsPlanNegation": SAVINGS_PLAN,
}
_NO_USAGE = {
    "Tax": "tax",
    "Credit": "a credit",
    "Refund": "a refund",
    "SavingsPlanUpfrontFee": "a commitment of the whole account",
    "SavingsPlanRecurringFee": "a commitment of the whole account",
}
_ENGINES = {"0001": "memcached", "0002": "redis", "valkey": "valkey", "redis": "redis"}
"""Ends of an operation such as CreateCacheCluster:0002."""

_HOUR_UNIT = "node-hours"


@dataclass(frozen=True)
class ChargePlace:
    """Where a line belongs: a kind of charge, and a type of node if it is of one."""

    what: str
    node_type: str = ""


@dataclass
class ChargeSum:
    """Lines of one kind, added up."""

    quantity: float = 0.0
    usd: Fraction = Fraction(0)
    effective_usd: Fraction = Fraction(0)
    rows: int = 0

    def add(self, line: ExportLine) -> None:
        """One more."""
        self.quantity += line.amount if line.item_type != "SavingsPlanNegation" else 0.0
        self.usd += line.usd
        self.effective_usd += line.effective_usd
        self.rows += 1


@dataclass
class CacheMember:
    """A node of a cache, with the time of its last hour that was billed."""

    shard: str
    ends: datetime


@dataclass
class CacheCharges:
    """What was charged for one cache.

    Attributes
    ----------
    name, region, account
        As the export has them; lines without a resource belong to the cache of no name.
    charges
        By kind and type of node.
    members
        Its nodes by name.
    engines
        That were told.
    """

    name: str
    region: str
    account: str
    charges: dict[ChargePlace, ChargeSum] = field(default_factory=dict)
    members: dict[str, CacheMember] = field(default_factory=dict)
    engines: set[str] = field(default_factory=set)


@dataclass
class Charges:
    """All lines of some exports."""

    caches: dict[tuple[str, str, str], CacheCharges] = field(default_factory=dict)
    unplaced: dict[tuple[str, str, str, str], ChargeSum] = field(default_factory=dict)
    total_usd: Fraction = Fraction(0)
    rows: int = 0
    begins: datetime | None = None
    ends: datetime | None = None

    @property
    def placed_usd(self) -> Fraction:
        """Of all lines that belong to caches."""
        return sum(
            (each.usd for cache in self.caches.values() for each in cache.charges.values()),
            Fraction(0),
        )

    @property
    def unplaced_usd(self) -> Fraction:
        """Of all others."""
        return sum((each.usd for each in self.unplaced.values()), Fraction(0))


def place_lines(lines: Iterable[ExportLine]) -> Charges:
    """Place every line."""
    found = Charges()
    for line in lines:
        found.rows += 1
        found.total_usd += line.usd
        where = place_line(line)
        if isinstance(where, str):
            key = line.product, line.usage_type, line.item_type, where
            found.unplaced.setdefault(key, ChargeSum()).add(line)
            continue
        found.begins = min(line.begins, found.begins or line.begins)
        found.ends = max(line.ends, found.ends or line.ends)
        _add(found, line, where)
    return found


def place_line(line: ExportLine) -> ChargePlace | str:
    """Where a line belongs, or why it belongs to no cache."""
    if line.item_type in _NO_USAGE:
        return _NO_USAGE[line.item_type]
    usage = _usage(line)
    if line.product != SERVICE:
        return _other_service(line, usage)
    if "Discount" in line.item_type and line.item_type != "DiscountedUsage":
        return ChargePlace(DISCOUNTS)
    if node := _NODE.fullmatch(usage):
        return _node(line, prefix=node[1] or "", node_type=node[2])
    if (committed := _COMMITTED.fullmatch(usage)) and line.item_type in ("RIFee", "Fee"):
        return ChargePlace(RESERVED, committed[1])
    if line.item_type != "Usage":
        return f"a line of the type {line.item_type[:40] or 'nothing'}"
    for pattern, what in ((_BACKUP, BACKUPS), (_SERVERLESS, SERVERLESS), (_BYTES, TRAFFIC)):
        if pattern.fullmatch(usage):
            return ChargePlace(what)
    return "a usage that is not known"


def cache_and_shard(resource: str) -> tuple[str, str]:
    """The cache of a node, and its shard: `orders-0002-001` is of shard 0002 of orders."""
    found = _MEMBER.fullmatch(resource)
    return (resource, "") if found is None else (found[1], found[2] or "")


def unit_of(where: ChargePlace) -> str:
    """In what a kind of charge is counted."""
    if where.what in (*NODE_CHARGES, SUPPORT, DURABILITY):
        return _HOUR_UNIT
    return {BACKUPS: "GB-months", TRAFFIC: "GB"}.get(where.what, "")


def _usage(line: ExportLine) -> str:
    """The type of a usage without its region: `NodeUsage:...` of `EU-NodeUsage:...`."""
    found = _REGION.fullmatch(line.usage_type)
    return found[1] if found else line.usage_type


def _node(line: ExportLine, *, prefix: str, node_type: str) -> ChargePlace | str:
    if prefix.startswith("ExtendedSupport"):
        return ChargePlace(SUPPORT, node_type)
    if prefix == "SyncDurability":
        return ChargePlace(DURABILITY, node_type)
    if prefix:
        return "a usage that is not known"
    if line.item_type in _BY_ITEM:
        return ChargePlace(_BY_ITEM[line.item_type], node_type)
    return f"a line of the type {line.item_type[:40] or 'nothing'}"


def _other_service(line: ExportLine, usage: str) -> str:
    if usage.startswith("DataTransfer-Regional-Bytes"):
        return "traffic between zones of the whole account: which part is of caches is not told"
    if line.product == "AmazonEC2" and "BoxUsage" in usage:
        return "an instance: whether a cache runs on it is not told"
    return "no line of ElastiCache"


def _add(found: Charges, line: ExportLine, where: ChargePlace) -> None:
    resource = _resource(line)
    name, shard = cache_and_shard(resource)
    region = line.region or "not told"
    key = name, region, line.account
    cache = found.caches.setdefault(key, CacheCharges(name, region, line.account))
    cache.charges.setdefault(where, ChargeSum()).add(line)
    if where.what not in NODE_CHARGES:
        return
    engine = line.engine.lower() or _ENGINES.get(line.operation.rpartition(":")[2].lower(), "")
    if engine:
        cache.engines.add(engine)
    if resource:
        member = cache.members.setdefault(resource, CacheMember(shard, line.ends))
        member.ends = max(member.ends, line.ends)


def _resource(line: ExportLine) -> str:
    """The name of a node or cache; empty where a line is of none, such as a reservation's."""
    parts = line.resource.split(":")
    if len(parts) >= 7 and parts[0] == "arn":
        known = ("cluster", "replicationgroup", "serverlesscache")
        return parts[6] if parts[5] in known else ""
    return line.resource if ":" not in line.resource else ""


# --- caches, and what runs in them ----------------------------------------------------------------


ENGINE, VERSION = "elasticache-redis", "7.1"
"""The managed engine whose work is known best; an export does not tell the version."""

_MOST_THREADS = 8
"""Taken of a node's threads, whose number the service does not publish."""

_OF_NODES = (*NODE_CHARGES, SUPPORT, DURABILITY, DISCOUNTS)
_LAST = timedelta(hours=25)
"""A node that was billed this long before the end at least is there no more."""


@dataclass
class TodaysBill:
    """An export, read: the answer's part, and fields of a plan's `today` and `choices`."""

    result: FromBill
    cache: BilledCache | None
    today: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, Any] = field(default_factory=dict)


def todays_bill(
    files: Sequence[str | Path], *, cache: str | None = None, seen: Iterable[str] = ()
) -> TodaysBill:
    """What exports of a bill tell.

    Parameters
    ----------
    files
        Exports, each of other lines.
    cache
        The cache that is meant; the dearest of those in `seen`, or of all, without it.
    seen
        Caches of which there are metrics.
    """
    charges = place_lines(chain.from_iterable(export_lines(path) for path in files))
    if not charges.rows:
        raise InputError(f"{files[0]}: found no line of a bill; valid is one at least.")
    _give_to_the_only_one(charges)
    hours = 0.0  # that the lines of caches are of, one at least
    if charges.begins is not None and charges.ends is not None:
        hours = max(1.0, (charges.ends - charges.begins).total_seconds() / 3600.0)
    caches = sorted(
        (_cache(each, charges, hours) for each in charges.caches.values()),
        key=lambda each: -each.usd_per_month,
    )
    chosen = _chosen(caches, cache, set(seen), files)
    known: list[KnownField] = []
    unknown: list[str] = []
    today: dict[str, Any] = {}
    choices: dict[str, Any] = {}
    if chosen is not None:
        today, choices = _fields(chosen, known, unknown)
    _tell(charges, caches, chosen, unknown)
    result = FromBill(
        files=[str(path) for path in files],
        begins="" if charges.begins is None else charges.begins.isoformat(),
        ends="" if charges.ends is None else charges.ends.isoformat(),
        hours=hours,
        rows=charges.rows,
        total_usd=float(charges.total_usd),
        placed_usd=float(charges.placed_usd),
        unplaced_usd=float(charges.unplaced_usd),
        cache="" if chosen is None else chosen.name,
        caches=caches,
        unplaced=_unplaced(charges),
        known=known,
        unknown=unknown,
        compared=[],
    )
    return TodaysBill(result, chosen, today, choices)


def _give_to_the_only_one(charges: Charges) -> None:
    """Lines without a resource, such as those of a reservation, are of the only cache there is."""
    named = [each for each in charges.caches.values() if each.name]
    nameless = [key for key, each in charges.caches.items() if not each.name]
    if len(named) != 1:
        return
    [only] = named
    for key in nameless:
        if charges.caches[key].region not in (only.region, "not told"):
            continue
        for where, added in charges.caches.pop(key).charges.items():
            held = only.charges.setdefault(where, ChargeSum())
            held.quantity += added.quantity
            held.usd += added.usd
            held.effective_usd += added.effective_usd
            held.rows += added.rows


def _cache(charged: CacheCharges, charges: Charges, hours: float) -> BilledCache:
    by_type: dict[str, float] = {}
    for where, each in charged.charges.items():
        if where.what in NODE_CHARGES and where.node_type:
            by_type[where.node_type] = by_type.get(where.node_type, 0.0) + each.quantity
    monthly = HOURS_A_MONTH / hours
    lines = [_line(where, each, monthly) for where, each in charged.charges.items()]
    nodes, shards, replicas = _nodes(charged, charges, sum(by_type.values()) / hours)
    return BilledCache(
        name=charged.name or f"without a name in {charged.region}",
        region=charged.region,
        engine=next(iter(charged.engines)) if len(charged.engines) == 1 else "",
        node_type=max(by_type, key=lambda each: by_type[each], default=""),
        nodes=nodes,
        shards=shards,
        replicas=replicas,
        lines=sorted(lines, key=lambda each: -abs(each.usd_per_month)),
        usd=float(sum(each.usd for each in charged.charges.values())),
        usd_per_month=sum(line.usd_per_month for line in lines),
    )


def _line(where: ChargePlace, each: ChargeSum, monthly: float) -> BilledLine:
    return BilledLine(
        what=where.what,
        node_type=where.node_type,
        quantity=0.0 if where.what in (SERVERLESS, DISCOUNTS) else each.quantity,
        unit=unit_of(where),
        usd=float(each.usd),
        usd_per_month=float(each.effective_usd) * monthly,
    )


def _nodes(
    charged: CacheCharges, charges: Charges, mean: float
) -> tuple[int, int | None, int | None]:
    """Nodes at the end, shards, and replicas of each, as far as names tell."""
    if not charged.members or charges.ends is None:
        return max(0, round(mean)), None, None
    last = [each for each in charged.members.values() if charges.ends - each.ends <= _LAST]
    members = last or list(charged.members.values())
    shards: dict[str, int] = {}
    for each in members:
        shards[each.shard] = shards.get(each.shard, 0) + 1
    if charged.engines == {"memcached"}:
        return len(members), len(members), 0
    return len(members), len(shards), max(shards.values()) - 1


def _chosen(
    caches: Sequence[BilledCache], name: str | None, seen: set[str], files: Sequence[str | Path]
) -> BilledCache | None:
    """The cache that is meant."""
    if name is not None:
        named = [each for each in caches if each.name == name]
        if not named:
            hint = did_you_mean(name, [each.name for each in caches]) if caches else "none is there"
            raise InputError(f"{files[0]}: found no cache {name!r}; {hint}")
        return named[0]
    with_nodes = [each for each in caches if each.node_type]
    measured = [each for each in with_nodes if each.name in seen]
    return next(iter(measured or with_nodes), None)


def _fields(
    cache: BilledCache, known: list[KnownField], unknown: list[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of `today` and `choices`."""
    table = load_prices(NODE_PRICES)
    cores = {f"cache.{each.name}": each.cores for each in list_instances()}

    def found(name: str, value: Any, how: str) -> Any:
        known.append(KnownField(name, value, how))
        return value

    choices = _region(cache, known, unknown)
    if cache.engine == "memcached":
        unknown.append("what ElastiCache for Memcached does: its nodes are not predicted")
        return {}, choices
    today: dict[str, Any] = {"engine": ENGINE, "engine_version": VERSION}
    if cache.engine == "valkey":
        unknown.append(f"the work of ElastiCache for Valkey: that of {ENGINE} {VERSION} is taken")
    elif any(line.what == SUPPORT for line in cache.lines):
        unknown.append(
            f"the work of a version beyond its support: that of {ENGINE} {VERSION} is taken"
        )
    else:
        unknown.append(f"the engine's version: {VERSION} is taken (today.engine_version)")
    shards = cache.shards or cache.nodes
    if cache.shards is None:
        unknown.append(
            f"how many of the {cache.nodes} nodes are replicas: the export names no nodes; none "
            "is taken (today.shards, today.replicas)"
        )
    how = "names of nodes in the export" if cache.shards else "node-hours"
    today["shards"] = found("today.shards", min(500, max(1, shards)), how)
    today["replicas"] = found("today.replicas", min(5, cache.replicas or 0), how)
    own = sum(line.usd_per_month for line in cache.lines if line.what in _OF_NODES)
    if cache.node_type not in cores or cache.node_type not in table.nodes.types:
        unknown.append(
            f"what a {cache.node_type} does: the catalogue has no host or price of it, so today's "
            "nodes are not predicted"
        )
        return today, choices
    today["instance"] = found("today.instance", cache.node_type, "usage types of the export")
    if own > 0 and cache.nodes:
        each = min(1e7, float(f"{own / cache.nodes:.6g}"))
        today["usd_per_month"] = found("today.usd_per_month", each, "the export, for a node")
    today["io_threads"] = min(_MOST_THREADS, cores[cache.node_type])
    unknown.append(
        f"how many threads a node runs: the service does not say; {today['io_threads']} are taken "
        "(today.io_threads)"
    )
    return today, choices


def _region(cache: BilledCache, known: list[KnownField], unknown: list[str]) -> dict[str, Any]:
    """The region, and how its prices differ from those of the table."""
    table = load_prices(NODE_PRICES)
    if cache.region in (table.region, "not told"):
        return {}
    for line in cache.lines:
        if line.what != ON_DEMAND or line.quantity <= 0 or line.usd <= 0:
            continue
        if line.node_type not in table.nodes.types:
            continue
        here = line.usd / line.quantity
        there = table.node_usd_per_hour(line.node_type, served_engine(cache.engine))
        factor = float(f"{here / there:.4g}")
        if not 0 < factor <= 10:
            continue
        how = f"what the export paid an hour of {line.node_type}, against {table.region}"
        known.append(KnownField("choices.region_factor", factor, how))
        return {"region": cache.region, "region_factor": factor}
    unknown.append(
        f"prices of {cache.region}: those of {table.region} are taken (choices.region_factor)"
    )
    return {}


def _tell(
    charges: Charges,
    caches: Sequence[BilledCache],
    chosen: BilledCache | None,
    unknown: list[str],
) -> None:
    """What else is not known."""
    others = [each for each in caches if each is not chosen]
    if chosen is not None and others:
        usd = sum(each.usd_per_month for each in others)
        unknown.append(
            f"what {len(others)} other caches need, which cost ${usd:,.0f} a month: {chosen.name} "
            "is planned for (--cache names another)"
        )
    if chosen is not None:
        free = [
            line
            for line in chosen.lines
            if line.what == RESERVED and line.quantity > 0 and line.usd_per_month == 0
        ]
        if free:
            unknown.append(
                "what reserved nodes cost: the export has no effective cost of them, and their "
                "fees name no cache"
            )
    if not charges.caches:
        unknown.append("what runs today: no line of the export is of ElastiCache")


def _unplaced(charges: Charges) -> list[UnplacedLine]:
    found = [
        UnplacedLine(product, usage, item, why, each.rows, float(each.usd))
        for (product, usage, item, why), each in charges.unplaced.items()
    ]
    return sorted(found, key=lambda each: (-abs(each.usd), each.product, each.usage_type))
