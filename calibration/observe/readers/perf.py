"""What perf prints: samples (`perf script`) and counters (`perf stat`)."""

import re
from dataclasses import dataclass
from pathlib import Path

from forecache.hwprofiles.files import read_text

from .lines import ABSENT, Place, numbered, shown

# --- `perf script` --------------------------------------------------------------------------------

# Samples that `perf script` prints: one header line each, and a call chain behind it or not.
#
# Read are the fields comm, pid, tid, cpu, time, event, period, ip, sym, symoff and dso of `-F`, in
# perf's own order; pid, cpu, period and what belongs to the chain may be missing. Other fields
# (`srcline`, the text of a tracepoint) are refused.


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in the code; None stands for what perf calls `[unknown]` or does not print.

    `offset` counts bytes from the start of the symbol; `dso` is the file of the code.
    """

    address: int
    symbol: str | None = None
    offset: int | None = None
    dso: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One sample; `frames` goes from the innermost function outwards.

    `time_s` counts from the start of perf's clock. `period` is how many events the sample stands
    for: nanoseconds where the event is `cpu-clock` or `task-clock`.
    """

    comm: str
    pid: int | None
    tid: int
    cpu: int | None
    time_s: float
    period: int | None
    event: str
    frames: tuple[Frame, ...]


_HEADER = re.compile(
    r"\s*(?P<comm>\S.*?)\s+(?:(?P<pid>-?[0-9]+)/)?(?P<tid>-?[0-9]+)\s+"
    r"(?:\[(?P<cpu>[0-9]+)\]\s+)?(?P<time>[0-9]+\.[0-9]{6,9}):\s+"
    r"(?:(?P<period>[0-9]+)\s+)?(?P<event>\S+):(?:\s+(?P<frame>\S.*?)?\s*)?"
)
_FRAME = re.compile(r"\s*(?P<address>[0-9a-f]{1,16})(?:\s+(?P<rest>.*?))?\s*")
_OFFSET = re.compile(r"(?P<symbol>.*)\+0x(?P<offset>[0-9a-f]{1,16})")
_UNKNOWN = "[unknown]"


def read_perf_script(path: str | Path) -> tuple[Sample, ...]:
    """Samples of a file with the output of `perf script`."""
    return parse_perf_script(read_text(path), file=str(path))


def parse_perf_script(text: str, *, file: str) -> tuple[Sample, ...]:
    """Samples of the output of `perf script`, in its order; comments are skipped.

    Raises
    ------
    InputError
        A line that is neither comment, sample nor frame, a frame outside of a sample, a sample
        inside of a call chain, a last line that was cut, or no sample at all.
    """
    samples: list[Sample] = []
    chain: list[Frame] = []
    sample: re.Match[str] | None = None
    sample_at = Place(file, 0)
    if not text.endswith("\n"):
        raise sample_at.wrong("a last line without an end", valid="a whole file")
    for at, line in numbered(text.removesuffix("\n"), file=file):
        if line.startswith("\t"):
            if sample is None or sample["frame"]:
                raise at.wrong("a frame outside of a call chain", valid="a sample before it")
            chain.append(_frame(at, line))
            continue
        if line.startswith("#"):
            continue
        if chain and line:
            raise at.wrong(shown(line), valid="a frame, or the blank line that ends a call chain")
        if sample is not None:
            samples.append(_sample(sample_at, sample, chain))
            sample, chain = None, []
        if line:
            sample, sample_at = _HEADER.fullmatch(line), at
            if sample is None:
                raise at.wrong(
                    shown(line), valid="`comm [pid/]tid [cpu] time: [period] event:` or a frame"
                )
    if sample is not None:
        samples.append(_sample(sample_at, sample, chain))
    if not samples:
        raise Place(file, 0).wrong("no sample", valid="output of `perf script`")
    return tuple(samples)


def _sample(at: Place, found: re.Match[str], chain: list[Frame]) -> Sample:
    """The sample of a header line and its frames."""

    def count(name: str, *, lowest: int, highest: int) -> int | None:
        text = found[name]
        return None if text is None else at.count(text, name, lowest=lowest, highest=highest)

    # perf prints -1 for a task it doesn't know.
    return Sample(
        comm=found["comm"],
        pid=count("pid", lowest=-1, highest=2**31),
        tid=at.count(found["tid"], "tid", lowest=-1, highest=2**31),
        cpu=count("cpu", lowest=0, highest=2**20),
        time_s=at.decimal(found["time"], "the time", highest=1e12),
        period=count("period", lowest=0, highest=2**64 - 1),
        event=found["event"],
        frames=(_frame(at, found["frame"]),) if found["frame"] else tuple(chain),
    )


def _frame(at: Place, text: str) -> Frame:
    """`address [symbol[+0xoffset]] [(dso)]`."""
    found = _FRAME.fullmatch(text)
    if found is None:
        raise at.wrong(shown(text), valid="`address symbol (file)`")
    symbol, dso = _split_dso(found["rest"] or "")
    offset = None
    if matched := _OFFSET.fullmatch(symbol):
        symbol, offset = matched["symbol"], int(matched["offset"], 16)
    return Frame(
        address=int(found["address"], 16),
        symbol=None if symbol in ("", _UNKNOWN) else symbol,
        offset=offset,
        # perf says (inlined) in place of the file of a function that has no frame of its own.
        dso=None if dso in ("", _UNKNOWN, "inlined") else dso,
    )


def _split_dso(text: str) -> tuple[str, str]:
    """Symbol and file of `symbol (file)`, of which both may hold parentheses."""
    if not text.endswith(")"):
        return text, ""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += (text[index] == ")") - (text[index] == "(")
        if depth == 0:
            if index == 0 or text[index - 1] == " ":
                return text[:index].rstrip(), text[index + 1 : -1]
            break
    return text, ""


# --- `perf stat` ----------------------------------------------------------------------------------

# Counters that `perf stat -x ';'` prints of a whole run.
#
# Layout: man perf-stat, "CSV FORMAT", and the output of perf 6.1. What perf derives from a counter
# (`0.523;CPUs utilized`, behind it or on a line of its own) is checked and left out.


SEPARATOR = ";"
"""For `-x`: names of events hold commas."""

_VALID = (
    "value;unit;event;run-time;share[;metric;unit], as `perf stat -x ';'` prints a counter, or the "
    "metric alone behind its counter"
)
_NOT_COUNTED = ("<not supported>", "<not counted>")
_VALUE = re.compile(r"[0-9]+(\.[0-9]+)?|<not supported>|<not counted>")
_RUNNING = re.compile(r"(?:100|[1-9]?[0-9])\.[0-9]{2}")
# A derived value that has none: the denominator of a ratio was zero.
_NO_METRIC = ABSENT | {"nan", "-nan", "inf", "-inf"}


@dataclass(frozen=True, kw_only=True)
class Counter:
    """One counter.

    Attributes
    ----------
    value : float, optional
        As perf prints it: already scaled up where the counter was multiplexed. None when absent.
    absent : str, optional
        Why there is no value: `<not supported>` or `<not counted>`.
    unit : str
        Unit of the value, `msec` for one; empty for a plain count.
    run_ns : int
        How long the event was counted.
    running_fraction : float
        Share of the time the counter was scheduled, 0 to 1; below 1 the value is extrapolated.
    """

    event: str
    value: float | None
    absent: str | None
    unit: str
    run_ns: int
    running_fraction: float


def read_perf_stat(path: str | Path) -> list[Counter]:
    """Counters of a file that `perf stat -x ';' -o FILE` wrote."""
    return parse_perf_stat(read_text(path), file=str(path))


def parse_perf_stat(text: str, *, file: str) -> list[Counter]:
    """Counters in the order of the text.

    Raises
    ------
    InputError
        A line that is neither a comment nor a counter, or there is no counter at all.
    """
    counters: list[Counter] = []
    for at, line in numbered(text, file=file):
        fields = [field.strip() for field in line.split(SEPARATOR)]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if counters and len(fields) >= 6 and not any(fields[:-2]) and fields[-1]:
            _check_metric(at, line, fields[-2], fields[-1])
        else:
            counters.append(_counter(at, line, fields))
    if not counters:
        raise Place(file, 0).wrong("no counter", valid="output of `perf stat -x ';'`")
    return counters


def _counter(at: Place, line: str, fields: list[str]) -> Counter:
    """The counter of a line."""
    if len(fields) not in (5, 7) or not fields[2] or not _VALUE.fullmatch(fields[0]):
        raise at.wrong(shown(line), valid=_VALID)
    value, unit, event, run, share, *metric = fields
    if not _RUNNING.fullmatch(share) or any(map(_VALUE.fullmatch, (unit, event))):
        raise at.wrong(shown(line), valid=_VALID)
    if metric:
        _check_metric(at, line, *metric)
    return Counter(
        event=event,
        value=None if value in _NOT_COUNTED else at.decimal(value, event),
        absent=value if value in _NOT_COUNTED else None,
        unit=unit,
        run_ns=at.count(run, "the run time"),
        running_fraction=at.fraction_of_percent(share, "the share of time"),
    )


def _check_metric(at: Place, line: str, value: str, unit: str) -> None:
    """What perf derives has a value and a unit, or neither."""
    if value not in _NO_METRIC and at.decimal(value, "a metric", lowest=-1e30) and unit in ABSENT:
        raise at.wrong(shown(line), valid=_VALID)
