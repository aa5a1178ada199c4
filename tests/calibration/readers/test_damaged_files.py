"""The fuzzer of `verification/inputs/readers.py`: a few inputs a reader; does it see faults?"""

from dataclasses import replace

import pytest

from forecache.calibration.observe.readers.perf import parse_perf_stat
from forecache.sim.errors import InputError
from verification.inputs.readers import READERS, Reader, fuzz

BY_NAME = {reader.name: reader for reader in READERS}


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_damaged_files_are_refused_or_read_right(reader: Reader) -> None:
    outcome = fuzz(reader, inputs=300 + len(reader.samples))
    assert outcome.failures == []
    assert outcome.accepted > len(reader.samples)
    assert outcome.refused > 0


def raises_something_else(text: str) -> object:
    return parse_perf_stat(text, file="f") if len(text) % 7 else [][1]


def takes_absence_for_zero(text: str) -> object:
    counters = parse_perf_stat(text, file="f")
    return [replace(counter, value=counter.value or 0.25, absent=None) for counter in counters]


def swaps_two_columns(text: str) -> object:
    counters = parse_perf_stat(text, file="f")
    return [
        replace(counter, value=float(counter.run_ns or 0), run_ns=int(counter.value))
        if counter.value is not None and counter.value.is_integer()
        else counter
        for counter in counters
    ]


def refuses_everything(_: str) -> object:
    raise InputError("f: found something; valid is nothing.")


@pytest.mark.parametrize(
    "parse",
    [raises_something_else, takes_absence_for_zero, swaps_two_columns, refuses_everything],
)
def test_a_faulty_reader_is_found(parse: object) -> None:
    assert fuzz(replace(BY_NAME["perf_stat"], parse=parse), inputs=300).failures  # type: ignore[arg-type]
