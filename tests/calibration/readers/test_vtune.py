"""CSV reports of VTune, in layouts written by hand after real ones."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.vtune import parse_vtune, read_vtune
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).parent / "samples" / "vtune"


def test_hotspots() -> None:
    report = read_vtune(SAMPLES / "hotspots-comma.csv")
    assert (report.kind, len(report.columns)) == ("hotspots", 11)
    lookup, hashing, outside = report.rows
    assert (lookup.name, lookup.depth) == ("lookupKey", 0)
    assert lookup.text["Function (Full)"] == "lookupKey(db*, object*, int)"
    assert lookup.numbers["CPU Time"] == 12.503412
    assert lookup.numbers["Memory Bound(%)"] == pytest.approx(0.418)
    # Not named as a share: stays what it is.
    assert lookup.numbers["Average Latency (cycles)"] == 14.646296
    assert hashing.name == "hash<long, (int)1>"
    assert outside.numbers["Memory Bound:L1 Bound(%)"] is None
    assert outside.numbers["LLC Miss Count"] == 0.0


def test_hotspots_by_package() -> None:
    report = read_vtune(SAMPLES / "hotspots-package-tab.csv")
    assert (report.kind, [row.name for row in report.rows]) == (
        "hotspots",
        ["package_0", "package_1"],
    )
    assert report.rows[0].text == {}


def test_hardware_events() -> None:
    report = read_vtune(SAMPLES / "hw-events-semicolon.csv")
    assert report.kind == "hw-events"
    read, emplace = report.rows
    assert read.numbers["Hardware Event Count:INST_RETIRED.ANY (K)"] == pytest.approx(3650109350)
    assert emplace.name == "emplace<a; b>"
    assert emplace.numbers["Hardware Event Count:MEM_LOAD_RETIRED.L3_MISS_PS:cmask=1"] is None
    by_package = read_vtune(SAMPLES / "hw-events-package-caret.csv")
    assert by_package.kind == "hw-events"
    assert by_package.rows[0].numbers["Uncore Event Count:UNC_M_CAS_COUNT.RD[UNIT0]"] == 183021990


def test_top_down_with_blanks_before_quotes() -> None:
    report = read_vtune(SAMPLES / "top-down-comma.csv")
    assert report.kind == "top-down"
    assert [row.depth for row in report.rows] == [0, 1, 2, 3, 4, 3, 2, 1]
    quoted = report.rows[4]
    assert quoted.path == (
        *("Total", "main", "aeProcessEvents", "visit<std::pair<int, char>, std::error>"),
        'operator,<"quoted">',
    )
    assert report.rows[5].path == ("Total", "main", "aeProcessEvents", "readQueryFromClient")
    assert quoted.text == {"Module": "libdemo.so"}
    # The total of a row is its own time and the totals of the rows below it.
    for number, row in enumerate(report.rows):
        below = 0.0
        for other in report.rows[number + 1 :]:
            if other.depth <= row.depth:
                break
            if other.depth == row.depth + 1:
                below += other.numbers["CPU Time:Total"] or 0.0
        own = row.numbers["CPU Time:Self"] or 0.0
        assert row.numbers["CPU Time:Total"] == pytest.approx(own + below)


def test_callstacks() -> None:
    report = read_vtune(SAMPLES / "callstacks-comma.csv")
    assert report.kind == "callstacks"
    assert [row.path for row in report.rows] == [
        ("fill",),
        ("fill", "visit"),
        ("fill", "run<int, 3>"),
        ("hash",),
        ("hash", "fill"),
    ]


def test_summary() -> None:
    report = read_vtune(SAMPLES / "summary-comma.csv")
    assert report.kind == "summary"
    rows = {row.path: row for row in report.rows}
    assert rows["Elapsed Time",].numbers == {"Metric Value": 149.77}
    bound = rows["Elapsed Time", "Memory Bound(%)"]
    assert bound.numbers["Metric Value"] == pytest.approx(0.296)
    dram = rows["Elapsed Time", "Memory Bound(%)", "DRAM Bound"]
    assert dram.numbers == {"Metric Value": None}
    assert rows["Bandwidth Utilization", "DRAM, GB/sec"].numbers == {
        "Platform Maximum": 118.0,
        "Observed Maximum": 47.9,
        "Average": 8.35,
        "% of Elapsed Time with High BW Utilization(%)": 0.0,
    }
    assert rows["Bandwidth Utilization", "UPI, (%)"].numbers["Average"] is None
    platform = "Collection and Platform Info"
    # Begins like a number and is none.
    assert rows[platform, "Operating System"].text == {"Metric Value": "6.1.0-demo"}
    assert rows[platform, "CPU", "Logical CPU Count"].numbers == {"Metric Value": 64.0}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no report"),
        ("Function\n", "'Function'"),
        ("Colour,CPU Time\n", "a CSV report of VTune"),
        ("Function,CPU Time,CPU Time\n", "a CSV report of VTune"),
        ("Index;% CPU Time:Total;CPU Time:Self;CPU Time:Children;Name;Index\n", "a CSV report"),
        ("Function,CPU Time\nf,1,2\n", "line 2: found 3 fields"),
        ("Function,CPU Time\nf,1.5s\n", "'1.5s' as CPU Time"),
        ("Function,CPU Time\nf,nan\n", "'nan'"),
        ("Function,CPU Time\nf,-1\n", "'-1'"),
        ("Function,CPU Time\nf,inf\n", "'inf'"),
        ('Function,CPU Time\n"f<a, b>x",1\n"f,1\n', "matching quotes"),
        ("Function,CPU Time\n,1\n", "a row without a name"),
        ("Function Stack,CPU Time:Self\nTotal,0\n  main,1\n", "level 2"),
        ("Hierarchy Level,Metric Name,Metric Value\n1,a,2\n", "level 1"),
        ("Hierarchy Level,Metric Name,Metric Value\nx,a,2\n", "as the hierarchy level"),
        ("Hierarchy Level,Metric Name,Metric Value\n0,a\n", "a level, a name and a value"),
        ("Hierarchy Level,Metric Name,Metric Value\n0,a,b,1\n", "or their names"),
    ],
)
def test_what_is_refused(text: str, found: str) -> None:
    with pytest.raises(InputError) as error:
        parse_vtune(text, file="f")
    assert found in str(error.value)
    assert str(error.value).startswith("f")


NAMES = st.sampled_from(["main", "f<a, b>", 'say "hi"', "a;b", "x^y", "[Loop at line 3 in f]"])
VALUES = st.none() | st.integers(0, 10**9).map(lambda n: n / 1000)


@given(
    st.lists(st.tuples(NAMES, st.integers(0, 9), VALUES, VALUES, VALUES), min_size=1, max_size=8),
    st.sampled_from(",\t;^"),
)
def test_what_was_written_is_read_back(
    drawn: list[tuple[str, int, float | None, float | None, float | None]], delimiter: str
) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if delimiter in text or '"' in text else text

    def written(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    columns = ("Function Stack", "CPU Time:Self", "L1 Bound:Self(%)", "EVENT:Self (K)", "Module")
    lines, rows = [delimiter.join(columns)], []
    path: tuple[str, ...] = ()
    for name, level, time_s, bound, thousands in drawn:
        path = (*path[: min(level, len(path))], name)
        bound = None if bound is None else bound % 100
        numbers = [written(time_s), written(bound), written(thousands)]
        indented = " " * (len(path) - 1) + quoted(name)
        lines.append(delimiter.join([indented, *numbers, "libc.so.6"]))
        rows.append((path, time_s, bound, thousands))
    report = parse_vtune("\n".join(lines) + "\n", file="f")
    assert report.columns == columns
    for row, (path, time_s, bound, thousands) in zip(report.rows, rows, strict=True):
        assert row.path == path
        assert row.text == {"Module": "libc.so.6"}
        assert row.numbers[columns[1]] == time_s
        shown = row.numbers[columns[2]]
        assert shown == (None if bound is None else pytest.approx(round(bound, 3) / 100))
        counted = row.numbers[columns[3]]
        assert counted == (None if thousands is None else pytest.approx(thousands * 1000))
