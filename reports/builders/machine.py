"""What a machine allows, and what was measured on it: a host, a benchmark tool, an engine."""

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from forecache.calibration.bundle.bundle import Bundle, bundle_summary
from forecache.calibration.doctor.abilities import Ability, Diagnosis
from forecache.calibration.observe.tool_profile import ToolReport
from forecache.hwprofiles.quantity import Quantity
from forecache.hwprofiles.schema import HostProfile

from ..document import Column, Document, Items, Part, Section, Text, TextTable, words
from ..text.formats import number, percent, rate, span
from ..tidy import TidyTable, flat, tidy
from .calibration import LABELS

_MARKS = {"yes": "✓", "limited": "~", "no": "✗", "unknown": "?"}
_LEGEND = "✓ all that forecache can use  ~ less than that  ✗ no  ? not known"


def diagnosis(answer: Diagnosis) -> Document:
    """What is here and what it helps, then how to get what is not."""
    abilities = answer.abilities
    lacking = [ability for ability in abilities if ability.get]
    parts: list[Part] = [
        TextTable(
            [
                _names(abilities),
                words("found", [x.found for x in abilities], wraps=True),
                words("helps", [x.helps for x in abilities], wraps=True, style="muted"),
            ]
        )
    ]
    if lacking:
        ways = TextTable(
            [words("", [x.title for x in lacking]), words("", [x.get for x in lacking], wraps=True)]
        )
        parts.append(Section("What would help", [ways]))
    fields = ("id", "title", "status", "found", "helps", "get")
    return Document(
        about="",
        headline=_counted(abilities),
        sections=[Section("", [*parts, Text(_LEGEND, "muted")])],
        tables={
            "abilities": lambda: tidy([{x: getattr(each, x) for x in fields} for each in abilities])
        },
    )


def _counted(abilities: Sequence[Ability]) -> str:
    """`18 of 25 are there in full, 3 in part`."""
    full, part = (sum(x.status == status for x in abilities) for status in ("yes", "limited"))
    return f"Of {len(abilities)} abilities this machine has {full} in full and {part} in part"


def diagnosis_in_lines(answer: Diagnosis) -> Document:
    """The same with a line for each thing, for one screen; of long texts what they begin with.

    What would help stands in place of what it helps.
    """
    abilities = answer.abilities
    last = [f"→ {_in_short(x.get)}" if x.get else x.helps for x in abilities]
    table = TextTable(
        [
            _names(abilities),
            words("found", [_in_short(x.found) for x in abilities], cut=True),
            words("helps, or → what would help", last, cut=True),
        ]
    )
    legend = Text(f"{_LEGEND}\nall of it: --all", "muted")
    return replace(diagnosis(answer), sections=[Section("", [table, legend])])


_SHORT = 27
"""Letters of a text that needs no shortening."""


def _in_short(text: str) -> str:
    """A text, or of a long one what stands before its first comma, colon or bracket."""
    return text if len(text) <= _SHORT else re.split(r"[,;:]? [(]|[,;:] ", text)[0]


def _names(abilities: Sequence[Ability]) -> Column:
    names = [f"{_MARKS[ability.status]} {ability.title}" for ability in abilities]
    return words("this machine", names, style="mark")


def host(profile: HostProfile) -> Document:
    """A captured host: every number with its range."""
    return _measured(
        f"{profile.id}: {profile.title}", [_quantities(profile.quantities()), Items(profile.notes)]
    )


def _measured(title: str, parts: Sequence[Part], **tables: Callable[[], TidyTable]) -> Document:
    section = Section(title, parts, tone="plain")
    return Document(about="", headline=title, sections=[section], tables=tables)


def _quantities(named: Iterable[tuple[str, Quantity]]) -> TextTable:
    rows = list(named)
    return TextTable(
        [
            words("what", [name for name, _ in rows]),
            Column("value", [number(leaf.value) for _, leaf in rows]),
            Column("range", [span(leaf.low, leaf.high) for _, leaf in rows]),
            words("unit", [leaf.unit for _, leaf in rows], wraps=True),
            words("origin", [leaf.kind for _, leaf in rows]),
        ],
        lead=1,
    )


def tool(report: ToolReport) -> Document:
    """What a benchmark tool takes: its numbers, and each point measured against fitted."""
    points = report.points
    errors = [abs(error) for error in report.errors]
    median = statistics.median
    table = TextTable(
        [
            Column("pipeline", [str(point.pipeline) for point in points]),
            Column("clients", [str(point.clients) for point in points]),
            Column("CPU µs a request", [number(median(point.cpu_us)) for point in points]),
            Column("range", [span(min(x.cpu_us), max(x.cpu_us)) for x in points]),
            Column("fitted", list(map(number, report.fitted_us))),
            Column("server µs", [number(median(point.server_cpu_us)) for point in points]),
            Column("requests/s", [f"{median(x.throughput_rps):,.0f}" for x in points]),
        ],
        lead=2,
    )
    parts: list[Part] = [
        _quantities(report.profile.work.items()),
        table,
        Text(
            f"Fitted to {percent(median(errors))} in the median, {percent(max(errors))} at worst. "
            f"Sleeping and waking take {report.wake_factor:.2f} times what the host's profile says."
        ),
    ]
    if not report.counted:
        text = "valgrind is not on PATH: instructions are those that were counted elsewhere."
        parts.append(Text(text))
    return _measured(report.profile.title, parts)


def bundle(observed: Bundle) -> Document:
    """What was observed, one row a point, medians over the repetitions."""
    engine, machine = observed.manifest.engine, observed.manifest.machine
    rows, points = bundle_summary(observed).points, observed.points
    roles = [point.given.role for point in points]
    highest = max((x.throughput_rps for x in rows if x.throughput_rps is not None), default=None)
    cpu_ns = [x and round(x) for x in (row.server_cpu_ns_per_request for row in rows)]
    table = TextTable(
        [
            words("point", [x.given.label() for x in points], wraps=True),
            words("role", ["held out" if x == "holdout" else x for x in roles]),
            Column(
                "requests/s", [number(x.throughput_rps and round(x.throughput_rps)) for x in rows]
            ),
            Column("CPU ns", list(map(number, cpu_ns))),
            Column("p99 ms", [number(row.p99_ms) for row in rows]),
            Column("main", [percent(row.main_thread_utilisation) for row in rows]),
            Column("load", [percent(row.generator_utilisation) for row in rows]),
            words("flags", [", ".join(row.flags) for row in rows], wraps=True),
        ],
        lead=1,
    )
    meanings = (
        f"{LABELS}; CPU ns: of the server, per request; main, load: how busy the main thread and "
        "the load generator were"
    )
    return _measured(
        f"{engine.name} {engine.version}: {len(points)} points, up to {rate(highest)}",
        [
            Text(engine.path),
            Text(f"on {machine.cpu_model}, kernel {machine.kernel}"),
            table,
            Text(meanings, "muted"),
            Items([*observed.manifest.warnings, *observed.manifest.left_out]),
        ],
        points=lambda: tidy(
            [
                {
                    **row.given.model_dump(mode="json", exclude_none=True),
                    **{name: value for name, value in flat(row).items() if name != "given"},
                }
                for row in rows
            ]
        ),
    )
