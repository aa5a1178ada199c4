"""Readers of other tools' files, given damaged ones.

Every input is a sample with one to three damages. A reader must refuse it with an `InputError`, or
return numbers that stand in it, each on the line it is of. `python -m verification.inputs.readers
[--inputs N] [NAME ...]` shows what fails.
"""

import argparse
import random
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from forecache.calibration.observe.readers.benchmark import parse_benchmark, parse_memtier
from forecache.calibration.observe.readers.callgrind import CallgrindProfile, parse_callgrind
from forecache.calibration.observe.readers.perf import (
    Counter,
    Sample,
    parse_perf_script,
    parse_perf_stat,
)
from forecache.calibration.observe.readers.vtune import VtuneReport, parse_vtune
from forecache.calibration.today.bill import Charges, export_lines_in, place_lines
from forecache.calibration.today.keys import parse_big_keys
from forecache.calibration.today.metrics import NodeMetrics, read_metrics
from forecache.sim.errors import InputError

from ..check import Check, Finding, within_range
from .benchmark_readers import check_benchmark, check_memtier
from .key_readers import check_big_keys, check_rdb, rdb_keys
from .reader_results import WrongResult, in_range, on_lines, present

SAMPLES = Path(__file__).parents[2] / "tests" / "calibration" / "readers" / "samples"
_KEYS = SAMPLES.parents[1] / "keyspace" / "samples"
INPUTS = 100_000
_SEED = 20261120
# Longer samples would only make the damages sparser and the run slower.
_LONGEST_SAMPLE_BYTES = 3000
_SHOWN_FAILURES = 5


@dataclass(frozen=True)
class Reader:
    """What is tested: a function from text to a result, its samples, what must hold of results.

    `check(result, text)` raises `WrongResult`. A reader of bytes has its own in `parse`, and in
    `check` a text of one letter for each byte.
    """

    name: str
    parse: Callable[[Any], object]
    samples: tuple[Path, ...]
    check: Callable[[object, str], None] = field(repr=False)
    of_bytes: bool = False


@dataclass
class Outcome:
    """How damaged inputs ended."""

    accepted: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)


def fuzz(reader: Reader, *, inputs: int, seed: int = _SEED) -> Outcome:
    """Give a reader damaged samples; the same ones for the same seed.

    The samples themselves come first, and must be accepted.
    """
    samples = [path.read_bytes() for path in reader.samples]
    outcome = Outcome()
    draw = random.Random(seed)
    for number in range(inputs):
        whole = number < len(samples)
        data = samples[number] if whole else damaged(samples, draw)
        try:
            _read(reader, data)
        except InputError as error:
            outcome.refused += 1
            if whole or not _is_one_sentence(str(error)):
                outcome.failures.append(f"input {number}: {error!r}")
        except WrongResult as error:
            outcome.failures.append(f"input {number}: {error}; from {data!r}")
        except Exception as error:
            outcome.failures.append(f"input {number}: {error!r}; from {data!r}")
        else:
            outcome.accepted += 1
    return outcome


def _read(reader: Reader, data: bytes) -> object:
    """What a reader makes of bytes, decoded as `read_text` does it if it reads text; checked."""
    if reader.of_bytes:
        result = reader.parse(data)
        reader.check(result, data.decode("latin-1"))
        return result
    try:
        text = data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise InputError("a file: not UTF-8.") from None
    result = reader.parse(text)
    reader.check(result, text)
    return result


def _is_one_sentence(message: str) -> bool:
    return message.endswith(".") and "\n" not in message and len(message) < 700


# Damages

_NUMBERS = (
    *(b"", b"0", b"-1", b"nan", b"inf", b"1e999", b"1e-999", b"1_0", b"0x10", b"9" * 25, b"1.5"),
    *(b"9" * 5000, b"-0", b"18446744073709551616", "\u0663".encode(), b"+7", b"1,5"),
)
_GARBAGE = (
    *(b"\x00", b"\xff", b"\xc3", "é\u2028".encode(), b'"', b"\r", b"{", b"}", b"[]", b"(", b")"),
    *(b"#", b"%", b"<not counted>", b"N/A", b" ", b"\t", b"\n", b"\n\n", b"=", b"null"),
)
_SEPARATORS = (b",", b";", b"|", b"\t", b":", b" ", b"^", b".")
_NUMBER_IN_BYTES = re.compile(rb"[0-9]+(?:\.[0-9]+)?")


def damaged(samples: list[bytes], draw: random.Random) -> bytes:
    """A sample with one to three damages."""
    data = draw.choice(samples)
    for _ in range(draw.choice((1, 1, 2, 3))):
        data = draw.choice(_DAMAGES)(data, draw)
    if draw.random() < 0.02:
        other = draw.choice(samples)
        data = data[: draw.randrange(len(data) + 1)] + other[draw.randrange(len(other) + 1) :]
    return data


def _flip(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 4)) if data else 0):
        changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + bytes([draw.choice(b'0123456789.,;-+ *()[]%:=/"azAZ')]) + data[at + 1 :]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def _delete_span(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + data[at + draw.choice((1, 1, 2, 10, 100)) :]


def _insert(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    return data[:at] + draw.choice(_GARBAGE) + data[at:]


def _change_number(data: bytes, draw: random.Random) -> bytes:
    found = list(_NUMBER_IN_BYTES.finditer(data))
    if not found:
        return data
    start, end = draw.choice(found).span()
    return data[:start] + draw.choice(_NUMBERS) + data[end:]


def _change_separator(data: bytes, draw: random.Random) -> bytes:
    old, new = draw.choice(_SEPARATORS), draw.choice(_SEPARATORS)
    if draw.random() < 0.3:
        return data.replace(old, new)
    places = [found.start() for found in re.finditer(re.escape(old), data)]
    if not places:
        return data
    at = draw.choice(places)
    return data[:at] + new + data[at + 1 :]


def _lines(data: bytes, draw: random.Random) -> bytes:
    """Delete, repeat or swap lines."""
    lines = data.split(b"\n")
    a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
    what = draw.randrange(3)
    if what == 0:
        del lines[a]
    elif what == 1:
        lines.insert(b, lines[a])
    else:
        lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


_DAMAGES = (
    *(_flip, _overwrite, _cut, _delete_span, _insert, _change_number, _change_separator, _lines),
)


# What must hold of results


def _check_perf_stat(result: object, text: str) -> None:
    assert isinstance(result, list)
    records = []
    for counter in result:
        assert isinstance(counter, Counter)
        in_range(counter)
        if (counter.value is None) == (counter.absent is None):
            raise WrongResult(f"{counter} has a value and has none")
        if counter.event not in text:
            raise WrongResult(f"{counter.event!r} is not in the file")
        records.append(present(counter.value, counter.run_ns, counter.running_fraction * 100))
    on_lines(records, text)


def _check_perf_script(result: object, text: str) -> None:
    assert isinstance(result, tuple)
    assert all(isinstance(sample, Sample) for sample in result)
    in_range(result, signed=frozenset({"pid", "tid"}))
    samples = [
        present(sample.pid, sample.tid, sample.cpu, sample.time_s, sample.period)
        for sample in result
    ]
    on_lines(samples, text)
    lines = iter(text.split("\n"))
    for sample in result:
        for frame in sample.frames:
            wanted = f"{frame.address:x}", frame.symbol or "", frame.dso or ""
            for line in lines:
                if all(part in line for part in wanted):
                    break
            else:
                raise WrongResult(f"{frame} is on no line")


def _check_callgrind(result: object, text: str) -> None:
    assert isinstance(result, CallgrindProfile)
    in_range(result)
    events = result.events
    for event in events:
        if sum(cost.self[event] for cost in result.functions.values()) != result.totals[event]:
            raise WrongResult(f"the costs of {event} don't add up to its total")
    # Part by part, read in another way: what stands behind `totals:`, or else `summary:`.
    stated = [0] * len(events)
    for part in re.split(r"^(?=events:)", text, flags=re.MULTILINE)[1:]:
        found = re.findall(r"^totals: *(.*)", part, re.MULTILINE)
        found = found or re.findall(r"^summary: *(.*)", part, re.MULTILINE)
        for index, number in enumerate(found[0].split()):
            stated[index] += int(number, 0 if number.startswith("0x") else 10)
    if stated != [result.totals[event] for event in events]:
        raise WrongResult(f"totals {result.totals} where the file says {stated}")
    counts = [int(number) for number in re.findall(r"^calls=[ \t]*([0-9]+)", text, re.MULTILINE)]
    if sum(call.count for call in result.calls) != sum(counts):
        raise WrongResult("not as many calls as in the file")
    for call in result.calls:
        if call.caller not in result.functions or call.callee not in result.functions:
            raise WrongResult(f"{call} of an unknown function")


def _check_vtune(result: object, text: str) -> None:
    assert isinstance(result, VtuneReport)
    in_range(result)
    records = []
    for row in result.rows:
        numbers = []
        for column, number in row.numbers.items():
            if number is not None:
                is_percent = column.endswith("(%)") or column.startswith("% ")
                numbers.append(number * 100 if is_percent else _thousands(column, number))
        records.append(numbers)
        if not set(row.numbers) < set(result.columns):
            raise WrongResult("columns that the first line doesn't name")
    on_lines(records, text)


def _thousands(column: str, number: float) -> float:
    return number / 1000 if "(K)" in column else number


def _parse_export(text: str) -> Charges:
    return place_lines(export_lines_in(text.splitlines(keepends=True), file="f"))


def _check_export(result: object, text: str) -> None:
    """Every line has a place or none, and nothing is lost on the way."""
    assert isinstance(result, Charges)
    if result.placed_usd + result.unplaced_usd != result.total_usd:
        raise WrongResult("what was placed and what was not are not the whole")
    sums = [each for cache in result.caches.values() for each in cache.charges.values()]
    if sum(each.rows for each in [*sums, *result.unplaced.values()]) != result.rows:
        raise WrongResult("a line has no place, or two")
    if result.rows > text.count("\n") + 1:
        raise WrongResult("more lines than in the file")


def _parse_metrics(text: str) -> dict[str, NodeMetrics]:
    nodes: dict[str, NodeMetrics] = {}
    read_metrics(text.splitlines(keepends=True), nodes, file="f")
    return nodes


def _check_metrics(result: object, text: str) -> None:
    assert isinstance(result, dict)
    for name, node in result.items():
        if name not in text:
            raise WrongResult(f"{name!r} is not in the file")
        for series in node.series.values():
            for values in series.by_statistic.values():
                if not all(0 <= value <= 1e18 for value in values.values()):
                    raise WrongResult("a value out of its range")


def _samples(folder: str) -> tuple[Path, ...]:
    """The samples of a reader that are short enough."""
    return _short((SAMPLES / folder).iterdir())


def _short(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(
        path
        for path in sorted(paths)
        if path.suffix != ".md" and path.stat().st_size <= _LONGEST_SAMPLE_BYTES
    )


READERS = (
    Reader(
        "perf_stat", partial(parse_perf_stat, file="f"), _samples("perf_stat"), _check_perf_stat
    ),
    Reader(
        "perf_script",
        partial(parse_perf_script, file="f"),
        _samples("perf_script"),
        _check_perf_script,
    ),
    Reader(
        "callgrind", partial(parse_callgrind, file="f"), _samples("callgrind"), _check_callgrind
    ),
    Reader("vtune", partial(parse_vtune, file="f"), _samples("vtune"), _check_vtune),
    Reader("benchmark", partial(parse_benchmark, file="f"), _samples("benchmark"), check_benchmark),
    Reader("bill_export", _parse_export, _samples("bill_export"), _check_export),
    Reader("cloudwatch", _parse_metrics, _samples("cloudwatch"), _check_metrics),
    Reader("memtier", partial(parse_memtier, file="f"), _samples("memtier"), check_memtier),
    Reader(
        "big_keys",
        partial(parse_big_keys, file="f"),
        _short(_KEYS.glob("*keys.txt")),
        check_big_keys,
    ),
    Reader("rdb", rdb_keys, _short((_KEYS / "short").iterdir()), check_rdb, of_bytes=True),
)


def findings(reader: Reader, *, inputs: int) -> list[Finding]:
    """No failure, and both refused and accepted inputs, without which the rest says nothing."""
    outcome = fuzz(reader, inputs=inputs)
    for failure in outcome.failures[:_SHOWN_FAILURES]:
        print(f"  {failure[:2000]}", file=sys.stderr)
    return [
        within_range(f"{reader.name}: failures in {inputs} inputs", 0, len(outcome.failures), 0, 0),
        within_range(f"{reader.name}: refused", inputs, outcome.refused, 1, inputs),
        within_range(f"{reader.name}: accepted", inputs, outcome.accepted, 1, inputs),
    ]


CHECKS = [
    Check(
        reader.name,
        f"damaged files of {reader.name}: refused, or no number that isn't in them",
        partial(findings, reader, inputs=INPUTS),
    )
    for reader in READERS
]


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if all readers named, or all there are, hold."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.inputs.readers", description=__doc__
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="damaged inputs per reader")
    given = parser.parse_args(arguments)
    passed = True
    for reader in READERS:
        if not given.names or reader.name in given.names:
            for finding in findings(reader, inputs=given.inputs):
                print(f"{finding.subject}: {finding.found:.0f}", flush=True)
                passed = passed and finding.passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
