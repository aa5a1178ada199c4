"""What all readers share: checked numbers, places, files that can't be read."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.callgrind import read_callgrind
from forecache.calibration.observe.readers.lines import Place, numbered, shown
from forecache.calibration.observe.readers.perf import read_perf_script, read_perf_stat
from forecache.calibration.observe.readers.vtune import read_vtune
from forecache.sim.errors import InputError

AT = Place("run.csv", 3)


@given(st.just(0.0) | st.floats(1e-90, 1e30))
def test_decimals_are_read_back(value: float) -> None:
    assert AT.decimal(f"{value:.17g}", "a time") == value


@given(st.integers(0, 2**64 - 1))
def test_counts_are_read_back(value: int) -> None:
    assert AT.count(f" {value} ", "a count") == value


@pytest.mark.parametrize(
    "text",
    ["", "nan", "inf", "-1", "1_0", "0x10", "1e99", "1e999", "9" * 40, "\u0663", "1,5", "1 2"]
    + ["--1", "1e", "e1", "."],
)
def test_what_is_no_decimal(text: str) -> None:
    with pytest.raises(
        InputError, match=r"^run\.csv, line 3: found .* as a time; valid is a number"
    ):
        AT.decimal(text, "a time")


@pytest.mark.parametrize("text", ["", "1.0", "+1", "-1", "1e3", "\u0663", "18446744073709551616"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(InputError, match="as a count; valid is an integer from 0 to"):
        AT.count(text, "a count")


def test_minus_zero_is_zero() -> None:
    assert str(AT.decimal("-0", "a time")) == "0.0"


def test_shares() -> None:
    assert AT.fraction_of_percent(" 12.50%", "a share") == 0.125
    with pytest.raises(InputError, match=r"'100\.01' as a share in percent"):
        AT.fraction_of_percent("100.01%", "a share")


def test_lines_end_at_line_feeds_only() -> None:
    lines = list(numbered("a\x0bb\u2028c\r\nd", file="f"))
    assert [(at.line, line) for at, line in lines] == [(1, "a\x0bb\u2028c"), (2, "d")]


def test_what_an_error_shows() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert shown("  ") == "nothing"
    assert len(shown("x" * 1000)) == 60


@pytest.mark.parametrize("read", [read_perf_stat, read_perf_script, read_callgrind, read_vtune])
def test_files_that_cannot_be_read(read: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match="is a folder"):
        read(tmp_path)
    path = tmp_path / "binary"
    path.write_bytes(b"\x7fELF\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read(path)
