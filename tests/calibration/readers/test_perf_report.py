"""Tables of `perf report --stdio`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.perf_report import (
    EventReport,
    ReportRow,
    parse_perf_report,
    read_perf_report,
)
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).parent / "samples" / "perf_report"


def test_two_events_in_columns() -> None:
    clock, task = read_perf_report(SAMPLES / "two-events.txt")
    assert (clock.event, clock.samples, clock.event_count) == ("cpu-clock", 15, 150_000_000)
    assert task.event == "task-clock"
    assert clock.rows[0] == ReportRow(
        overhead_fraction=33.33 / 100,
        children_fraction=None,
        samples=5,
        command="a",
        dso="a",
        symbol="beta",
        kernel=False,
    )
    assert sum(row.samples or 0 for row in clock.rows) == clock.samples
    # A row's share is its share of the samples, all of which have the same period here.
    for row in clock.rows:
        assert row.samples is not None
        assert row.overhead_fraction == pytest.approx(row.samples / 15, abs=6e-5)
    kernel = [row.symbol for row in clock.rows if row.kernel]
    assert "irqentry_exit_to_user_mode" in kernel


def test_separated_as_recommended() -> None:
    (report,) = read_perf_report(SAMPLES / "recommended.txt")
    in_columns, _ = read_perf_report(SAMPLES / "two-events.txt")
    assert [(row.command, row.dso, row.symbol, row.kernel) for row in report.rows] == [
        (row.command, row.dso, row.symbol, row.kernel) for row in in_columns.rows
    ]


def test_children_with_and_without_call_graphs() -> None:
    (graph,) = read_perf_report(SAMPLES / "call-graph.txt")
    (separated,) = read_perf_report(SAMPLES / "children-semicolon.txt")
    by_symbol = {row.symbol: row for row in graph.rows}
    assert by_symbol == {row.symbol: row for row in separated.rows}
    assert by_symbol["main"].children_fraction == 1.0
    assert by_symbol["main"].overhead_fraction == 0.0
    assert by_symbol["beta"].overhead_fraction == 1.0


def test_columns_that_are_not_there() -> None:
    (report,) = read_perf_report(SAMPLES / "symbols-only.txt")
    assert {(row.command, row.dso, row.samples) for row in report.rows} == {(None, None, None)}
    assert report.rows[0].symbol == "beta"


def test_rounded_counts_and_guests() -> None:
    (report,) = read_perf_report(SAMPLES / "rounded-handmade.txt")
    assert (report.event, report.samples, report.event_count) == ("cycles:P", 12_000, 31250118902)
    assert [row.kernel for row in report.rows] == [False, True, True]
    assert report.rows[0].command == "io thd 1"
    assert report.rows[0].symbol == "std::pair<int, char> f<int>(int, char)"


HEAD = "# Samples: 2  of event 'a'\n# Event count (approx.): 5\n#\n# Overhead;Command;Symbol\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no table"),
        ("hello\n", "no table"),
        ("hello\n" + HEAD, "line 1"),
        (HEAD + " 50.00%;a;[.] f", "the last row at the end"),
        (HEAD + " 50.00%;a;[.] f\n 50.02%;a;[.] g\n\n\n", "shares of 100.02%"),
        (HEAD + " 50.00%;a\n\n\n", "line 5"),
        (HEAD + " 50.0%;a;[.] f\n\n\n", "line 5"),
        (HEAD + " 150.00%;a;[.] f\n\n\n", "line 5"),
        (HEAD + " 50.00%;a;f\n\n\n", "as Symbol"),
        (HEAD.replace("Command", "Symbol"), "each once"),
        (HEAD.replace("2 ", "2Q"), "line 1"),
        (HEAD.replace("# Event", "# Evnt"), "without its head"),
        (HEAD.replace("Overhead;", "Overhead "), "line 4"),
    ],
)
def test_what_is_refused(text: str, found: str) -> None:
    with pytest.raises(InputError) as error:
        parse_perf_report(text, file="f")
    assert found in str(error.value)


@st.composite
def reports(draw: st.DrawFn) -> EventReport:
    parts = draw(st.lists(st.integers(0, 10_000), max_size=6))
    total = max(sum(parts), 10_000)
    rows = tuple(
        ReportRow(
            overhead_fraction=part * 10_000 // total / 10_000,
            children_fraction=None,
            samples=draw(st.integers(0, 10**9)),
            command=draw(st.sampled_from(["a", "io thd 1", "valkey-server"])),
            dso=draw(st.sampled_from(["[kernel.kallsyms]", "libc.so.6", "a (deleted)"])),
            symbol=draw(st.sampled_from(["main", "f(int, char)", "0x00000000000011f0"])),
            kernel=draw(st.booleans()),
        )
        for part in parts
    )
    return EventReport(
        event=draw(st.sampled_from(["cycles", "cpu-clock:u", "cpu/event='x'/"])),
        samples=draw(st.integers(0, 999)) * draw(st.sampled_from([1, 1000, 10**6])),
        event_count=draw(st.integers(0, 2**63)),
        rows=rows,
    )


def as_text(report: EventReport, separator: str | None) -> str:
    samples = str(report.samples)
    for suffix, scale in (("M", 10**6), ("K", 1000)):
        if report.samples and report.samples % scale == 0:
            samples = f"{report.samples // scale}{suffix}"
            break
    names = ["Overhead", "     Samples", "Command", "Shared Object", "Symbol"]
    cells = [
        [
            f"{row.overhead_fraction:8.2%}",
            f"{row.samples:12d}",
            str(row.command),
            str(row.dso),
            f"[{'k' if row.kernel else '.'}] {row.symbol}",
        ]
        for row in report.rows
    ]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    between = "  " if separator is None else separator

    def line(texts: list[str]) -> str:
        padded = (text.ljust(width) for text, width in zip(texts, widths, strict=True))
        return between.join(padded)

    dots = "# " + between.join("." * width for width in widths) + "\n#\n" if not separator else ""
    return (
        f"# Samples: {samples}  of event '{report.event}'\n"
        f"# Event count (approx.): {report.event_count}\n#\n# {line(names)}\n{dots}"
        + "".join(("  " if separator is None else "") + line(row) + "\n" for row in cells)
        + "\n\n"
    )


@given(st.lists(reports(), min_size=1, max_size=3), st.sampled_from([None, ";", "\t", "|"]))
def test_what_was_written_is_read_back(written: list[EventReport], separator: str | None) -> None:
    text = "".join(as_text(report, separator) for report in written)
    read = parse_perf_report(text + "#\n# (Tip: none)\n#\n", file="f")
    assert len(read) == len(written)
    for found, wanted in zip(read, written, strict=True):
        assert (found.event, found.samples, found.event_count) == (
            wanted.event,
            wanted.samples,
            wanted.event_count,
        )
        for row, wanted_row in zip(found.rows, wanted.rows, strict=True):
            assert row.overhead_fraction == pytest.approx(wanted_row.overhead_fraction)
            assert (row.samples, row.command, row.dso, row.symbol, row.kernel) == (
                *(wanted_row.samples, wanted_row.command, wanted_row.dso),
                *(wanted_row.symbol, wanted_row.kernel),
            )
