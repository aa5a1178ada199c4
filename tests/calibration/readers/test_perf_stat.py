"""Counters of `perf stat`: real outputs in every layout, traps, and what was written read back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.perf_stat import (
    Counter,
    PerfMetric,
    parse_perf_stat,
    read_perf_stat,
)
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).parent / "samples" / "perf_stat"


@pytest.mark.parametrize("name", ["comma.csv", "repeated-bar.csv", "two-colons.csv", "plain.json"])
def test_real_outputs_of_one_run(name: str) -> None:
    clock, switches, faults, cycles = read_perf_stat(SAMPLES / name)
    assert (clock.event, clock.unit, clock.running_fraction) == ("task-clock", "msec", 1.0)
    # The clock counts its own run time, in milliseconds.
    assert clock.value is not None
    assert clock.run_ns == pytest.approx(clock.value * 1e6, rel=1e-3)
    assert clock.metric_unit == "CPUs utilized"
    assert (switches.event, switches.unit) == ("context-switches", "")
    assert (faults.event, faults.value is not None) == ("page-faults", True)
    assert (cycles.event, cycles.value, cycles.absent) == ("cycles", None, "<not supported>")
    assert cycles.metrics == ()
    is_repeated = name.startswith("repeated")
    assert (clock.variance_fraction is not None) == is_repeated


@pytest.mark.parametrize(
    ("name", "wheres"),
    [
        ("per-core-comma.csv", ["S0-D0-C0", "S0-D0-C1"]),
        ("per-cpu-interval.json", ["CPU0", "CPU1"]),
        ("per-cpu-tab.csv", ["CPU0", "CPU1"]),
        ("per-socket-repeated.json", ["S0"]),
    ],
)
def test_places(name: str, wheres: list[str]) -> None:
    counters = read_perf_stat(SAMPLES / name)
    assert sorted({counter.where or "" for counter in counters}) == wheres


def test_intervals_and_their_summary() -> None:
    counters = read_perf_stat(SAMPLES / "summary-comma.csv")
    assert [counter.interval_s is None for counter in counters] == [False, False, False, True]
    # Nothing ran in the second interval: no zero.
    assert (counters[1].value, counters[1].absent) == (None, "<not counted>")
    assert sum(counter.value or 0.0 for counter in counters[:3]) == pytest.approx(
        counters[3].value, abs=0.02
    )


def test_multiplexed_counters_and_names_with_commas() -> None:
    cycles, instructions, misses, fills, energy = read_perf_stat(
        SAMPLES / "multiplexed-handmade.csv"
    )
    assert (cycles.where, cycles.interval_s) == ("S0-D0-C0", 0.1002003)
    assert (instructions.value, instructions.running_fraction) == (2306404.0, 0.25)
    assert instructions.metrics == (
        PerfMetric(0.5, "insn per cycle"),
        PerfMetric(1.1, "stalled cycles per insn"),
    )
    assert (misses.event, misses.value) == ("cpu/event=0x2e,umask=0x41/u", 70317.0)
    assert (fills.event, fills.absent) == ("ls_any_fills/umask=8,cmask=1/", "<not counted>")
    assert (energy.unit, energy.value) == ("Joules", 12.5)


def test_json_of_other_versions() -> None:
    clock, cycles, other = read_perf_stat(SAMPLES / "newer-handmade.json")
    assert clock.metric_value == 224.456872
    assert cycles.running_fraction == pytest.approx(0.4001)
    assert cycles.metrics == (PerfMetric(35.6, "%  tma_backend_bound"),)
    assert (other.value, other.running_fraction, other.metrics) == (None, 0.0, ())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no counter"),
        ("# started on Fri\n", "no counter"),
        ("12,,cycles,100,101.00,,\n", "line 1"),
        ("12;;cycles;100;100.00;;\n,,,\n", "line 2: found ',,,'"),
        # A comma for a decimal point, as some locales have it.
        ("0,58,msec,task-clock,575513,100,00,178,509,CPUs utilized\n", "line 1"),
        ("1,,a,100,100.00,,\n1,,b,c,d,100,100.00,,\n", "where names hold commas"),
        (",,,,,,0.5,of all\n", "line 1"),
        ("1,,a,100,100.00,,\n,,,,,,x,GHz\n", "line 2"),
        ("nan,,a,100,100.00,,\n", "line 1"),
        ("-5,,a,100,100.00,,\n", "line 1"),
        ("1e400,,a,100,100.00,,\n", "line 1"),
        ('{"event" : "a"}\n', "an object with counter-value"),
        ('{"event" : "a", "event" : "b"}\n', "a key given twice"),
        (
            '{"counter-value" : NaN, "event" : "a", "event-runtime" : 1, "pcnt-running" : 1}',
            "'NaN'",
        ),
        ('{"counter-value" : true}\n', "texts and numbers"),
        ('{"counter-value" : ' + "[" * 100_000, "one JSON object"),
        ("{}\n{", "line 1"),
        ('{"metric-value" : "1.0", "metric-unit" : "GHz"}\n', "a metric alone"),
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
    path.write_bytes(b"1,,a,100,100.00,,\n\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        read_perf_stat(path)


NAMES = st.from_regex(r"[a-z][a-z0-9_.-]{0,12}(:[ukp]+)?", fullmatch=True)
PMU_NAMES = st.from_regex(r"cpu/event=0x[0-9a-f]{2},umask=0x[0-9a-f]{2}/[uk]?", fullmatch=True)
HUNDREDTHS = st.integers(0, 10_000).map(lambda n: n / 100)


@st.composite
def counters(draw: st.DrawFn, *, names: st.SearchStrategy[str]) -> Counter:
    value = draw(st.none() | st.integers(0, 2**50).map(float))
    n_metrics = 0 if value is None else draw(st.integers(0, 3))
    return Counter(
        event=draw(names),
        value=value,
        absent=draw(st.sampled_from(["<not counted>", "<not supported>"]))
        if value is None
        else None,
        unit=draw(st.sampled_from(["", "msec", "Joules", "MiB"])),
        run_ns=draw(st.integers(0, 2**60)),
        running_fraction=draw(HUNDREDTHS) / 100,
        variance_fraction=draw(st.none() | HUNDREDTHS.map(lambda percent: percent / 100)),
        interval_s=draw(st.none() | st.integers(0, 10**12).map(lambda n: n / 1000)),
        where=draw(st.none() | st.sampled_from(["CPU0", "S1-D0-C12", "io thd 1-4311", "N0"])),
        metrics=tuple(
            PerfMetric(
                draw(st.integers(-1000, 10**6)) / 1000, draw(st.sampled_from(["GHz", "K/sec"]))
            )
            for _ in range(n_metrics)
        ),
    )


def as_csv(counter: Counter, separator: str) -> str:
    prefix = []
    if counter.interval_s is not None:
        prefix.append(f"{counter.interval_s:16.9f}")
    if counter.where is not None:
        prefix.append(counter.where)
        if counter.where[0] == "S":
            prefix.append("2")
    value = counter.absent if counter.value is None else f"{counter.value:.0f}"
    fields = [*prefix, str(value), counter.unit, counter.event]
    if counter.variance_fraction is not None:
        fields.append(f"{counter.variance_fraction * 100:.2f}%")
    assert counter.running_fraction is not None
    fields += [str(counter.run_ns), f"{counter.running_fraction * 100:.2f}"]
    texts = [[f"{metric.value:.3f}", metric.unit] for metric in counter.metrics] or [["", ""]]
    lines = [[*fields, *texts[0]], *([*prefix, "", "", "", "", "", *text] for text in texts[1:])]
    return "".join(separator.join(line) + "\n" for line in lines)


@given(
    st.lists(counters(names=NAMES), min_size=1, max_size=5),
    st.sampled_from([";", "|", "\t", "::", "^", "~~~"]),
)
def test_csv_that_was_written_is_read_back(written: list[Counter], separator: str) -> None:
    text = "".join(as_csv(counter, separator) for counter in written)
    assert rounded(parse_perf_stat(text, file="f")) == rounded(written)


@given(st.lists(counters(names=NAMES | PMU_NAMES), min_size=1, max_size=5))
def test_comma_csv_that_was_written_is_read_back(written: list[Counter]) -> None:
    text = "".join(as_csv(counter, ",") for counter in written)
    assert rounded(parse_perf_stat(text, file="f")) == rounded(written)


def rounded(counters: list[Counter]) -> list[tuple[object, ...]]:
    """Counters without the last bits of percentages."""
    return [
        (
            *(counter.event, counter.value, counter.absent, counter.unit, counter.run_ns),
            *(counter.interval_s, counter.where, counter.metrics),
            round(counter.running_fraction or 0.0, 9),
            counter.variance_fraction is None,
            round(counter.variance_fraction or 0.0, 9),
        )
        for counter in counters
    ]
