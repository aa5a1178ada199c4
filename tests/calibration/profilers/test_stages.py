"""Symbol maps: which stage a function belongs to."""

import pytest

from forecache.calibration.observe.profilers.attribution import Stages, symbol_maps
from forecache.sim.errors import InputError

ENGINES = [("redis", "7.0.15"), ("valkey", "7.2.5"), ("valkey", "8.0.1"), ("valkey", "9.1.2")]


@pytest.mark.parametrize(
    ("engine", "version", "generation"),
    [
        ("redis", "7.0.15", "redis-7.0"),
        ("redis", "6.2.14", "redis-7.0"),
        ("valkey", "7.2.5", "redis-7.0"),
        ("valkey", "8.1.1", "valkey-8.0"),
        ("valkey", "9.0.0", "valkey-9.1"),
    ],
)
def test_each_version_has_its_generation(engine: str, version: str, generation: str) -> None:
    assert Stages(engine, version).generation == generation


@pytest.mark.parametrize("version", ["9.0", "80.1", ""])
def test_a_version_without_a_map_is_refused(version: str) -> None:
    with pytest.raises(InputError, match=r"found redis .*; valid is .*Redis 2.8 to 7"):
        Stages("redis", version)


@pytest.mark.parametrize(("engine", "version"), ENGINES)
def test_the_way_of_a_request(engine: str, version: str) -> None:
    stages = Stages(engine, version)
    expected = {
        "aeMain": "loop",
        "beforeSleep": "loop",
        "epoll_wait": "poll",
        "readQueryFromClient": "read",
        "processInputBuffer": "parse",
        "lookupKey": "lookup",
        "processCommand": "execute",
        "call": "execute",
        "addReplyBulk": "reply",
        "_addReplyToBufferOrList": "reply",
        "_writeToClient": "write",
        "serverCron": "other",
    }
    assert {name: stages.stage_of(name) for name in expected} == expected


def test_an_exact_name_beats_a_pattern_and_the_engine_the_common_map() -> None:
    stages = Stages("redis", "7.0.15")
    assert stages.stage_of("sdscatlen") == "memory"
    assert stages.stage_of("sdsrange") == "read"
    assert stages.stage_of("dictFind") == "lookup"
    assert stages.stage_of("dictSdsKeyCaseCompare") == "execute"
    assert stages.stage_of("stringObjectLen") == "reply"
    assert stages.stage_of("zmalloc") == "memory"


@pytest.mark.parametrize(
    "name",
    [
        "free@plt",
        "free@@GLIBC_2.2.5",
        "free'2",
        "free [/usr/lib/libc.so.6, malloc.c]",
        "free.part.0",
        "free.cold",
        "free.lto_priv.0",
    ],
)
def test_what_tools_append_to_a_name_does_not_count(name: str) -> None:
    assert Stages("redis", "7.0.15").stage_of(name) == "memory"


def test_an_unknown_function_has_no_stage() -> None:
    assert Stages("redis", "7.0.15").stage_of("0x0000000000064da0") is None
    assert Stages("redis", "7.0.15").stage_of("streamCreate") is None


@pytest.mark.parametrize(
    ("function", "stage"),
    [
        ("ksys_read", "read"),
        ("__x64_sys_recvfrom", "read"),
        ("__arm64_sys_write", "write"),
        ("__sys_sendto", "write"),
        ("do_epoll_wait", "poll"),
        ("__x64_sys_epoll_ctl", "poll"),
        ("__x64_sys_futex", "other"),
        ("__x64_sys_getpid", "other"),
        ("asm_exc_page_fault", "memory"),
        ("do_syscall_64", None),
        ("tcp_sendmsg", None),
        ("vfs_read", None),
    ],
)
def test_system_calls(function: str, stage: str | None) -> None:
    assert Stages("redis", "7.0.15").system_call_stage(function) == stage


def test_no_map_names_a_function_twice() -> None:
    for known in symbol_maps().values():
        for table in (known.stages, known.system_calls):
            names = [name for listed in table.values() for name in listed]
            assert len(names) == len(set(names)), known.id
