"""Samples of `perf script`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.perf import (
    Frame,
    Sample,
    parse_perf_script,
    read_perf_script,
)
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).parent / "samples" / "perf_script"


def test_call_chains_and_header() -> None:
    first, *_ = read_perf_script(SAMPLES / "chains-header.txt")
    assert (first.comm, first.pid, first.tid, first.cpu) == ("a", None, 496, None)
    assert (first.time_s, first.period, first.event) == (11150.556909, 5_000_000, "cpu-clock")
    assert first.frames[0] == Frame(0x114F, "beta", 0x26, "/opt/demo/a")
    assert [frame.symbol for frame in first.frames] == ["beta", "main", "__libc_start_call_main"]


def test_recommended_fields() -> None:
    samples = read_perf_script(SAMPLES / "recommended.txt")
    first = samples[0]
    assert (first.comm, first.pid, first.tid, first.cpu) == ("valkey-server", 506, 506, 0)
    assert first.period == 10_000_000
    assert {sample.event for sample in samples} == {"cpu-clock", "task-clock"}
    assert all(len(sample.frames) == 1 for sample in samples)
    assert any(frame.dso == "[kernel.kallsyms]" for s in samples for frame in s.frames)


def test_one_line_samples_and_samples_without_frames() -> None:
    lines = read_perf_script(SAMPLES / "one-line.txt")
    assert lines[0].frames == (Frame(0x55D56FEF8153, "beta", 0x2A, "/opt/demo/a"),)
    bare = read_perf_script(SAMPLES / "no-frames.txt")
    assert len(bare) == 6
    assert {(sample.period, sample.frames) for sample in bare} == {(None, ())}


def test_awkward_names() -> None:
    web, swapper, unknown = read_perf_script(SAMPLES / "names-handmade.txt")
    assert (web.comm, web.pid, web.tid, web.cpu) == ("Web Content 12", 4311, 4312, 1)
    assert (web.event, web.time_s) == ("cpu-clock:u", 198791.127353123)
    assert web.frames == (
        Frame(
            0x7F10AB40210C,
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
            0x1C,
            "/opt/demo/a b (deleted)",
        ),
        Frame(0x7F10AB402AAA, "operator()"),
        Frame(0x21B97),
        Frame(0xFFFFFFFF8168C030, "pv_native_safe_halt", None, "[kernel.kallsyms]"),
    )
    assert (swapper.event, swapper.tid, swapper.period) == ("cpu_core/cycles/P", 0, 1)
    assert (unknown.pid, unknown.tid) == (-1, -1)
    assert unknown.frames == (Frame(0x4005D0, "foo(int)"),)


HEAD = "a 1 [000] 2.000001: 5 cycles: \n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "a last line without an end"),
        ("# cmdline : x\n", "no sample"),
        ("\t 114f beta (/a)\n", "a frame outside of a call chain"),
        (HEAD + "\n\t 114f beta (/a)\n", "line 3: found a frame outside"),
        (HEAD.replace(" \n", " 114f beta (/a)\n") + "\t 114f beta (/a)\n", "line 2"),
        (HEAD + "\t 114f beta (/a)\n" + HEAD, "line 3"),
        (HEAD + "\t 114f beta (/a)", "a last line without an end"),
        (HEAD + "\t 114x beta (/a)\n\n", "line 2"),
        (HEAD + "  a.c:2\n", "line 2"),
        ("a 1 [000] 2.1: 5 cycles: \n", "line 1"),
        ("a 99999999999 [000] 2.000001: 5 cycles: \n", "as tid"),
        ("a 1 [000] 2.000001: 99999999999999999999 cycles: \n", "as period"),
        ("a 1 [000] 2.000001: sched:sched_switch: prev_comm=x\n", "line 1"),
    ],
)
def test_what_is_refused(text: str, found: str) -> None:
    with pytest.raises(InputError) as error:
        parse_perf_script(text, file="f")
    assert found in str(error.value)
    assert str(error.value).startswith("f")


SYMBOLS = st.sampled_from(["main", "f(int)", "std::map<int, char>::at(int) const", "[x]", "a b"])
FILES = st.sampled_from(["/usr/lib/libc.so.6", "[kernel.kallsyms]", "/tmp/a b (deleted)", "(a)"])
frames = st.builds(
    Frame,
    address=st.integers(0, 2**64 - 1),
    symbol=SYMBOLS,
    offset=st.none() | st.integers(0, 2**32),
    dso=st.none() | FILES,
)
samples = st.builds(
    Sample,
    comm=st.sampled_from(["a", "io thd 1", "7", "Web Content 12"]),
    pid=st.none() | st.integers(-1, 2**22),
    tid=st.integers(-1, 2**22),
    cpu=st.none() | st.integers(0, 500),
    time_s=st.integers(0, 10**12).map(lambda n: n / 1e6),
    period=st.none() | st.integers(0, 2**63),
    event=st.sampled_from(["cycles", "cpu-clock:u", "cpu/event=0x11,umask=0x1/", "sched:x"]),
    frames=st.lists(frames, max_size=4).map(tuple),
)


def as_text(sample: Sample) -> str:
    pid = "" if sample.pid is None else f"{sample.pid}/"
    cpu = "" if sample.cpu is None else f"[{sample.cpu:03d}] "
    period = "" if sample.period is None else f"{sample.period:10d} "
    head = f"{sample.comm:>16} {pid}{sample.tid:<5} {cpu}{sample.time_s:.6f}: {period}"
    lines = [f"{head}{sample.event}: "]
    for frame in sample.frames:
        offset = "" if frame.offset is None else f"+0x{frame.offset:x}"
        file = "" if frame.dso is None else f" ({frame.dso})"
        lines.append(f"\t{frame.address:16x} {frame.symbol}{offset}{file}")
    return "\n".join(lines) + "\n" + ("\n" if sample.frames else "")


@given(st.lists(samples, min_size=1, max_size=5))
def test_what_was_written_is_read_back(written: list[Sample]) -> None:
    text = "".join(as_text(sample) for sample in written)
    assert parse_perf_script(text, file="f") == tuple(written)
