"""Samples that `perf script` prints: one header line each, and a call chain behind it or not.

Read are the fields comm, pid, tid, cpu, time, event, period, ip, sym, symoff and dso of `-F`, in
perf's own order; pid, cpu, period and what belongs to the chain may be missing. Other fields
(`srcline`, the text of a tracepoint) are refused.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from forecache.hwprofiles.files import read_text

from .lines import Place, numbered, shown


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
    """Samples of a file with the output of `perf script`.

    Raises
    ------
    InputError
        As `parse_perf_script`, or the file can't be read.
    """
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
