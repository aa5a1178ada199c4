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
    assert lookup.name == "lookupKey"
    assert "Function (Full)" not in lookup.numbers
    assert lookup.numbers["CPU Time"] == 12.503412
    assert lookup.numbers["Memory Bound(%)"] == pytest.approx(0.418)
    # Not named as a share: stays what it is.
    assert lookup.numbers["Average Latency (cycles)"] == 14.646296
    assert hashing.name == "hash<long, (int)1>"
    assert outside.numbers["Memory Bound:L1 Bound(%)"] is None
    assert outside.numbers["LLC Miss Count"] == 0.0


def test_hardware_events() -> None:
    report = read_vtune(SAMPLES / "hw-events-comma.csv")
    assert report.kind == "hw-events"
    read, emplace = report.rows
    assert read.numbers["Hardware Event Count:INST_RETIRED.ANY (K)"] == pytest.approx(3650109350)
    assert emplace.name == "emplace<a; b>"
    assert emplace.numbers["Hardware Event Count:MEM_LOAD_RETIRED.L3_MISS_PS:cmask=1"] is None


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
        ("Function Stack,CPU Time:Self\nTotal,0\n", "a CSV report"),
        ("Function;CPU Time\nf;1\n", "a CSV report"),
    ],
)
def test_what_is_refused(text: str, found: str) -> None:
    with pytest.raises(InputError) as error:
        parse_vtune(text, file="f")
    assert found in str(error.value)
    assert str(error.value).startswith("f")


NAMES = st.sampled_from(["main", "f<a, b>", 'say "hi"', "a;b", "x^y", "[Loop at line 3 in f]"])
VALUES = st.none() | st.integers(0, 10**9).map(lambda n: n / 1000)


@given(st.lists(st.tuples(NAMES, VALUES, VALUES, VALUES), min_size=1, max_size=8))
def test_what_was_written_is_read_back(
    drawn: list[tuple[str, float | None, float | None, float | None]],
) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text

    def written(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    columns = ("Function", "CPU Time:Self", "L1 Bound:Self(%)", "EVENT:Self (K)", "Module")
    lines, rows = [",".join(columns)], []
    for number, (name, time_s, bound, thousands) in enumerate(drawn):
        bound = None if bound is None else bound % 100
        numbers = [written(time_s), written(bound), written(thousands)]
        # VTune indents some names.
        lines.append(",".join([" " * number + quoted(name), *numbers, "libc.so.6"]))
        rows.append((name, time_s, bound, thousands))
    report = parse_vtune("\n".join(lines) + "\n", file="f")
    assert report.columns == columns
    for row, (name, time_s, bound, thousands) in zip(report.rows, rows, strict=True):
        assert row.name == name
        assert row.numbers[columns[1]] == time_s
        shown = row.numbers[columns[2]]
        assert shown == (None if bound is None else pytest.approx(round(bound, 3) / 100))
        counted = row.numbers[columns[3]]
        assert counted == (None if thousands is None else pytest.approx(thousands * 1000))
