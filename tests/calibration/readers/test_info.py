from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.observe.readers.info import (
    CommandStats,
    Keyspace,
    info_fields,
    parse_info,
    read_info,
)
from forecache.sim.errors import InputError

SAMPLES = Path(__file__).with_name("samples") / "info"


def test_valkey_9() -> None:
    info = read_info(SAMPLES / "valkey-9.1.txt")
    assert info.engine == ("valkey", "9.1.2")
    assert info.commands["get"] == CommandStats(20000, 2279, 0, 0)
    assert info.commands["config|get"].calls == 4
    assert info.percentiles_us["set"] == {50.0: 0.001, 99.0: 1.003, 99.9: 7.007}
    assert info.keyspaces == {0: Keyspace(1, 0, 0)}
    assert info.cpu_s["used_cpu_user_main_thread"] == 0.232114
    assert info.io_threads_active_s == (0.104061,)
    assert info.sections["errorstats"] == {}


@pytest.mark.parametrize(
    ("file", "engine", "get_calls"),
    [("redis-7.0", ("redis", "7.0.15"), 102300), ("valkey-8.0", ("valkey", "8.0.1"), 60000)],
)
def test_older_engines(file: str, engine: tuple[str, str], get_calls: int) -> None:
    info = read_info(SAMPLES / f"{file}.txt")
    assert info.engine == engine
    assert info.commands["get"].calls == get_calls
    assert info.io_threads_active_s == ()


@pytest.mark.parametrize("file", ["redis-7.0", "valkey-8.0", "valkey-9.1"])
def test_the_plain_fields_are_the_same(file: str) -> None:
    path = SAMPLES / f"{file}.txt"
    assert read_info(path).fields == info_fields(path.read_text())


def test_io_threads_are_in_the_order_of_their_numbers() -> None:
    lines = [f"used_active_time_io_thread_{n}:{n}.5" for n in (10, 2, 1)]
    assert parse_info("\n".join(["# CPU", *lines]), file="x").io_threads_active_s == (
        1.5,
        2.5,
        10.5,
    )


def test_commands_of_redis_5() -> None:
    text = "# Commandstats\r\ncmdstat_get:calls=3,usec=10,usec_per_call=3.33\r\n"
    assert parse_info(text, file="x").commands == {"get": CommandStats(3, 10, None, None)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("usec=2279", "usec=3279"),
        ("calls=20000,usec=2279", "calls=20000,calls=20000,usec=2279"),
        ("usec_per_call=0.11,", ""),
        ("cmdstat_get", "get"),
        ("p99=1.003,p99.9=7.007", "p99=8.003,p99.9=7.007"),
        ("p50=0.001,p99=1.003,p99.9=7.007", "p99=0.001,p50=1.003"),
        ("used_cpu_sys:0.266099", "used_cpu_sys:nan"),
        ("used_memory:1540888\r\n", "used_memory:1540888\r\nused_memory:1\r\n"),
        ("used_memory:", "used_memory"),
        ("# Keyspace", "# Stats"),
        ("# Server\r\n", ""),
        ("db0:keys=1,", "db0:"),
        ("db0:", "dbx:"),
    ],
)
def test_damaged_texts(old: str, new: str) -> None:
    text = (SAMPLES / "valkey-9.1.txt").read_bytes().decode()
    assert old in text
    with pytest.raises(InputError, match=r"^x(, line [0-9]+)?: found .*; valid is "):
        parse_info(text.replace(old, new), file="x")


@pytest.mark.parametrize("text", ["", "\n\n", "PONG\n"])
def test_no_info(text: str) -> None:
    with pytest.raises(InputError, match=r"^x(, line [0-9]+)?: found .*; valid is "):
        parse_info(text, file="x")


names = st.from_regex(r"[a-z]{1,9}(\|[a-z]{1,9})?", fullmatch=True)
counts = st.integers(0, 2**40)
stats = st.builds(CommandStats, st.integers(1, 2**40), counts, counts, counts)


@given(st.dictionaries(names, stats, max_size=4), st.dictionaries(names, counts, max_size=4))
def test_round_trip(commands: dict[str, CommandStats], fields: dict[str, int]) -> None:
    lines = [
        "# Stats",
        *(f"{name}:{value}" for name, value in fields.items()),
        "",
        "# Commandstats",
        *(
            f"cmdstat_{name}:calls={c.calls},usec={c.total_us},"
            f"usec_per_call={c.total_us / c.calls:.2f},rejected_calls={c.rejected},"
            f"failed_calls={c.failed}"
            for name, c in commands.items()
        ),
    ]
    info = parse_info("\r\n".join(lines), file="x")
    assert info.commands == commands
    assert info.sections["stats"] == {name: str(value) for name, value in fields.items()}
