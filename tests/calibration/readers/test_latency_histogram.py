from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.drive.engine_process import EngineProcess
from forecache.calibration.observe.readers.latency_histogram import (
    CommandLatencies,
    latencies_of_reply,
    parse_latency_histogram,
    read_latency_histogram,
)
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).with_name("samples") / "latency_histogram"


@pytest.mark.parametrize(
    ("engine", "calls", "first"),
    [
        ("redis-7.0", 102300, (1, 102228)),
        ("valkey-8.0", 60000, (1, 59952)),
        ("valkey-9.1", 20000, (1, 19969)),
    ],
)
def test_what_clients_print(engine: str, calls: int, first: tuple[int, int]) -> None:
    raw = read_latency_histogram(SAMPLES / f"{engine}-raw.txt")
    numbered = read_latency_histogram(SAMPLES / f"{engine}-numbered.txt")
    assert raw["get"].calls == calls
    assert next(iter(raw["get"].calls_up_to_us.items())) == first
    assert set(numbered) == {"get", "set", "config|get", "config|set"}
    assert all(raw[name] == latencies for name, latencies in numbered.items())


def test_a_map_of_resp3() -> None:
    as_map = read_latency_histogram(SAMPLES / "valkey-9.1-resp3.txt")
    assert as_map["get"] == read_latency_histogram(SAMPLES / "valkey-9.1-raw.txt")["get"]


def test_the_reply_of_a_live_engine(engine: EngineProcess) -> None:
    with engine.control() as control:
        control.command("CONFIG", "RESETSTAT")
        for _ in range(20):
            control.command("GET", "a")
        latencies = latencies_of_reply(control.command("LATENCY", "HISTOGRAM", "get"))
    assert latencies["get"].calls == 20


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("20000", "20001"),
        ("calls", "call"),
        ("19997", "19907"),
        ("histogram_usec", ""),
        ("(integer) 33\n", ""),
        ("(integer) 16\n", "(integer) 6\n"),
        ('"set"', '"get"'),
        ("(integer) 8\n", "(integer) 8.5\n"),
    ],
)
def test_damaged_replies(old: str, new: str) -> None:
    text = (SAMPLES / "valkey-9.1-numbered.txt").read_text()
    assert old in text
    with pytest.raises(InputError, match=r"^x(, line [0-9]+)?: found .*; valid is "):
        parse_latency_histogram(text.replace(old, new, 1), file="x")


@pytest.mark.parametrize("reply", [None, [], "text", 3, ["get", ["calls", 1]], ["get", [None] * 4]])
def test_other_replies(reply: object) -> None:
    with pytest.raises(InputError, match=r"^LATENCY HISTOGRAM: found"):
        latencies_of_reply(reply)  # type: ignore[arg-type]


bounds = st.lists(st.integers(1, 2**30), max_size=6, unique=True).map(sorted)
names = st.from_regex(r"[a-z]{1,9}(\|[a-z]{1,9})?", fullmatch=True)


@st.composite
def latencies(draw: st.DrawFn) -> CommandLatencies:
    chosen = draw(bounds)
    added = draw(st.lists(st.integers(1, 2**40), min_size=len(chosen), max_size=len(chosen)))
    up_to = dict(zip(chosen, accumulate(added), strict=True))
    return CommandLatencies(sum(added), up_to)


@given(st.dictionaries(names, latencies(), min_size=1, max_size=4))
def test_round_trip(commands: dict[str, CommandLatencies]) -> None:
    reply: list[object] = []
    for name, found in commands.items():
        pairs = [number for pair in found.calls_up_to_us.items() for number in pair]
        reply += [name, ["calls", found.calls, "histogram_usec", pairs]]
    assert latencies_of_reply(reply) == commands  # type: ignore[arg-type]
