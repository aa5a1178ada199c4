"""A prediction against what was measured: the verdict, causes of a gap, and what follows."""

import math
from collections.abc import Sequence

from forecache.calibration.check.answers import CheckAnswer, ComparedQuantity, GapCause
from forecache.sim.statistics import Estimate

from ..document import Column, Document, Items, Part, Section, Text, TextTable, words
from ..text.formats import UNKNOWN, Unit, percent, plain, rate_unit, time_unit, with_bounds
from ..text.settings import engine_name, setting_name
from ..tidy import flat_table

_NAMES = {
    "throughput_rps": "throughput",
    "mean_ms": "mean latency",
    "p50_ms": "p50",
    "p90_ms": "p90",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "server_cpu_us": "server CPU",
}


def check(answer: CheckAnswer) -> Document:
    """The verdict, quantity by quantity, the causes, and what follows."""
    fields = ", ".join(f"{setting_name(name)} {plain(v)}" for name, v in answer.given.items())
    about = f"{answer.host.title}, {engine_name(answer.engine)}{f', {fields}' if fields else ''}"
    sections = [
        Section(
            _verdict(answer),
            [_quantities(answer.quantities)],
            tone="good" if answer.holds else "bad",
        )
    ]
    if answer.causes:
        title = "What explains the gap" if answer.outside else "What was otherwise"
        sections.append(Section(title, [_causes(answer.causes)]))
    elif not answer.holds and not answer.differs:
        sections.append(Section("Nothing that was tried explains the gap.", [Text("")]))
    unmet = [f"{answer.verdict.lower()}: {each.sentence}" for each in answer.unmet]
    sections += [
        Section("Ruled out", _list(answer.ruled_out)),
        Section("Measure next", _list(answer.measure_next)),
        Section(f"Updated prediction of {answer.updated_for}", _updated(answer)),
    ]
    return Document(
        about=f"{about}\nmeasured: {', '.join(answer.sources)}",
        headline=_verdict(answer),
        lines=[cause.what for cause in answer.causes[:3]],
        warnings=[*unmet, *answer.warnings],
        sections=sections,
        tables={
            "quantities": lambda: flat_table(answer.quantities),
            "causes": lambda: flat_table(answer.causes),
        },
    )


def _verdict(answer: CheckAnswer) -> str:
    if answer.holds:
        return "The prediction holds."
    outside = [_NAMES[row.quantity] for row in answer.outside]
    if not outside:
        return "The numbers are inside, but another setting was measured than was predicted."
    verb = "is" if len(outside) == 1 else "are"
    return f"The prediction does not hold: {', '.join(outside)} {verb} outside the interval."


def _unit(quantity: str, value: float) -> Unit:
    if quantity == "throughput_rps":
        return rate_unit(value)
    if quantity == "server_cpu_us":
        return Unit(1.0, 2, " µs")
    return time_unit(value)


def _quantities(rows: Sequence[ComparedQuantity]) -> TextTable:
    units = [_unit(row.quantity, row.predicted.value) for row in rows]
    ranges = [
        "" if row.repetitions == 1 else f"{unit.number(row.lowest)}–{unit.number(row.highest)}"
        for row, unit in zip(rows, units, strict=True)
    ]
    both = list(zip(rows, units, strict=True))
    return TextTable(
        [
            words("", [_NAMES[row.quantity] for row in rows]),
            Column("predicted (95%)", [with_bounds(row.predicted, unit) for row, unit in both]),
            Column("measured", [unit.number(row.measured) + unit.symbol for row, unit in both]),
            *([Column("repetitions", ranges, drop=1)] if any(ranges) else []),
            Column("gap", [percent(row.ratio - 1.0, signed=True) for row in rows]),
            words("", ["inside" if x.inside else "outside" for x in rows]),
        ]
    )


def _causes(causes: Sequence[GapCause]) -> TextTable:
    return TextTable(
        [
            Column("", [percent(cause.explains) for cause in causes]),
            words("", [cause.evidence for cause in causes]),
            words(
                "", [f"{x.station}: {x.what} With it: {_predicted(x)}." for x in causes], wraps=True
            ),
        ]
    )


def _predicted(cause: GapCause) -> str:
    def amount(quantity: str, value: float) -> str:
        unit = _unit(quantity, value)
        return unit.number(value) + unit.symbol if math.isfinite(value) else "without a bound"

    return ", ".join(f"{_NAMES[name]} {amount(name, x)}" for name, x in cause.predicted.items())


def _list(sentences: Sequence[str]) -> list[Part]:
    return [Items(sentences)] if sentences else []


def _updated(answer: CheckAnswer) -> list[Part]:
    if not answer.updated:
        return []
    names = [name for name in _NAMES if any(name in each.quantities for each in answer.updated)]
    fields = list(answer.updated[0].given)
    columns = [
        Column(setting_name(field), [plain(each.given[field]) for each in answer.updated])
        for field in fields
    ]
    for place, name in enumerate(names):
        cells = [_estimate(name, each.quantities.get(name)) for each in answer.updated]
        drop = len(names) - place if fields and place else 0
        columns.append(Column(_NAMES[name], cells, drop=drop))
    return [TextTable(columns)]


def _estimate(name: str, predicted: Estimate | None) -> str:
    return UNKNOWN if predicted is None else with_bounds(predicted, _unit(name, predicted.value))
