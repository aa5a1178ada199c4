"""Lines of bills in words and rows, shared by terminal and page."""

from collections.abc import Sequence

from forecache.models.cost.bill import BillLine, NotPriced
from forecache.models.plan.results import BilledCache, FromBill

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


def export_phrase(found: FromBill) -> str:
    """Of when an export is, and how much of it is of caches."""
    when = ""
    if found.begins:
        days = found.hours / 24.0
        span = f"{days:.3g} days" if days >= 2 else f"{found.hours:.3g} hours"
        when = f", {span} from {found.begins[:10]}"
    return (
        f"{count(found.rows)} lines{when}: ${found.total_usd:,.2f}, of which "
        f"${found.placed_usd:,.2f} are of caches and ${found.unplaced_usd:,.2f} could not be placed"
    )


def cache_rows(found: FromBill) -> list[tuple[str, str, str]]:
    """Name, nodes and cost a month of every cache."""
    return [(_named(each), _nodes(each), f"{each.usd_per_month:,.2f}") for each in found.caches]


def line_rows(found: FromBill) -> list[tuple[str, str, str]]:
    """Lines of the cache that is meant: kind, what the export has, cost a month."""
    rows = []
    for cache in found.caches:
        if cache.name != found.cache:
            continue
        for line in cache.lines:
            amount = f"{_amount(line.quantity)} {line.unit}, " if line.quantity else ""
            what = f"{line.what} {line.node_type}".strip()
            rows.append((what, f"{amount}${line.usd:,.2f}", f"{line.usd_per_month:,.2f}"))
    return rows


def compared_rows(found: FromBill) -> list[tuple[str, str, str]]:
    """Today's bill and the best plan's, part by part, and both sums."""

    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:,.2f}"

    rows = [(each.what, shown(each.today_usd), shown(each.plan_usd)) for each in found.compared]
    both = [
        (each.today_usd, each.plan_usd)
        for each in found.compared
        if each.today_usd is not None and each.plan_usd is not None
    ]
    sums = [sum(side) for side in zip(*both, strict=True)] if both else []
    name = "all" if len(both) == len(rows) else "all that both tell"
    return [*rows, (name, shown(sums[0]), shown(sums[1]))] if sums else rows


def unplaced_rows(found: FromBill, *, most: int) -> list[tuple[str, str, str]]:
    """Lines without a place, why, and their amounts; those beyond the most in one row."""
    rows = [
        (f"{each.product} {each.usage_type}".strip() or each.item_type, each.why, _cents(each.usd))
        for each in found.unplaced[:most]
    ]
    left = found.unplaced[most:]
    if left:
        usd = sum(each.usd for each in left)
        rows.append((f"{count(len(left))} more", "--json has them", _cents(usd)))
    return rows


def _cents(value: float) -> str:
    return f"{value:,.2f}"


def _nodes(cache: BilledCache) -> str:
    if not cache.nodes:
        return "serverless" if any(line.what == "serverless" for line in cache.lines) else ""
    words = f"{cache.nodes} × {cache.node_type}, {cache.engine or 'engine not told'}"
    if cache.shards is None or cache.replicas is None:
        return words
    shards = f"{cache.shards} shard{'s' * (cache.shards != 1)}"
    replicas = f"{cache.replicas} replica{'s' * (cache.replicas > 1)} each"
    return f"{words}, {shards} {f'with {replicas}' if cache.replicas else 'without replicas'}"


def _named(cache: BilledCache) -> str:
    return cache.name if cache.name.endswith(cache.region) else f"{cache.name}, {cache.region}"
