"""Counters of `perf stat`: real output, traps, and what was written read back."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.perf import Counter, parse_perf_stat, read_perf_stat
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).parent / "samples" / "perf_stat"


def test_real_output() -> None:
    clock, switches, faults, cycles = read_perf_stat(SAMPLES / "plain.csv")
    assert (clock.event, clock.unit, clock.running_fraction) == ("task-clock", "msec", 1.0)
    # The clock counts its own run time, in milliseconds.
    assert clock.value is not None
    assert clock.run_ns == pytest.approx(clock.value * 1e6, rel=1e-3)
    assert (switches.event, switches.unit) == ("context-switches", "")
    assert (faults.event, faults.value) == ("page-faults", 50.0)
    assert (cycles.event, cycles.value, cycles.absent) == ("cycles", None, "<not supported>")


def test_multiplexed_counters_and_names_with_commas() -> None:
    cycles, instructions, misses, fills, energy = read_perf_stat(
        SAMPLES / "multiplexed-handmade.csv"
    )
    assert (cycles.value, cycles.running_fraction) == (4612809.0, 1.0)
    # Behind it stands a second metric, on a line of its own.
    assert (instructions.value, instructions.running_fraction) == (2306404.0, 0.25)
    assert (misses.event, misses.value) == ("cpu/event=0x2e,umask=0x41/u", 70317.0)
    assert (fills.event, fills.absent) == ("ls_any_fills/umask=8,cmask=1/", "<not counted>")
    assert (energy.unit, energy.value) == ("Joules", 12.5)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no counter"),
        ("# started on Fri\n", "no counter"),
        ("12;;cycles;100;101.00;;\n", "line 1"),
        ("12;;cycles;100;100.00;;\n,,,\n", "line 2: found ',,,'"),
        ("12,,cycles,100,100.00,,\n", "line 1"),
        # Of an interval, or of one CPU: not asked for.
        ("   1.000100000;12;;cycles;100;100.00;;\n", "line 1"),
        ("CPU0;12;;cycles;100;100.00;;\n", "line 1"),
        (";;;;;0.5;of all\n", "line 1"),
        ("1;;a;100;100.00;;\n;;;;;x;GHz\n", "line 2"),
        ("1;;a;100;100.00;0.5;\n", "line 1"),
        ("1;;a;x;100.00;;\n", "line 1"),
        ("nan;;a;100;100.00;;\n", "line 1"),
        ("-5;;a;100;100.00;;\n", "line 1"),
        ("1e400;;a;100;100.00;;\n", "line 1"),
    ],
)
def test_what_is_refused(text: str, found: str) -> None:
    with pytest.raises(
        InputError, match=r"^f, line [0-9]+: found .*; valid is .*\.$|^f: "
    ) as error:
        parse_perf_stat(text, file="f")
    assert found in str(error.value)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "stat.csv"
    path.write_bytes(b"1;;a;100;100.00;;\n\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        read_perf_stat(path)


NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,12}(:[ukp]+)?", fullmatch=True)
PMU_NAMES = st.from_regex(r"cpu/event=0x[0-9a-f]{2},umask=0x[0-9a-f]{2}/[uk]?", fullmatch=True)
HUNDREDTHS = st.integers(0, 10_000).map(lambda n: n / 100)


@st.composite
def counters(draw: st.DrawFn) -> Counter:
    value = draw(st.none() | st.integers(0, 2**50).map(float))
    return Counter(
        event=draw(NAMES | PMU_NAMES),
        value=value,
        absent=draw(st.sampled_from(["<not counted>", "<not supported>"]))
        if value is None
        else None,
        unit=draw(st.sampled_from(["", "msec", "Joules", "MiB"])),
        run_ns=draw(st.integers(0, 2**60)),
        running_fraction=draw(HUNDREDTHS) / 100,
    )


METRICS = st.tuples(st.integers(-1000, 10**6), st.sampled_from(["GHz", "K/sec"]))


def as_csv(counter: Counter, metrics: list[tuple[int, str]]) -> str:
    value = counter.absent if counter.value is None else f"{counter.value:.0f}"
    share = f"{counter.running_fraction * 100:.2f}"
    fields = [str(value), counter.unit, counter.event, str(counter.run_ns), share]
    texts = [[f"{number / 1000:.3f}", unit] for number, unit in metrics] or [["", ""]]
    lines = [[*fields, *texts[0]], *(["", "", "", "", "", *text] for text in texts[1:])]
    return "".join(";".join(line) + "\n" for line in lines)


@given(st.lists(st.tuples(counters(), st.lists(METRICS, max_size=3)), min_size=1, max_size=5))
def test_what_was_written_is_read_back(
    written: list[tuple[Counter, list[tuple[int, str]]]],
) -> None:
    text = "".join(as_csv(counter, metrics) for counter, metrics in written)
    read = parse_perf_stat(text, file="f")
    assert [replace(counter, running_fraction=0.0) for counter in read] == [
        replace(counter, running_fraction=0.0) for counter, _ in written
    ]
    assert [counter.running_fraction for counter in read] == pytest.approx(
        [counter.running_fraction for counter, _ in written]
    )
