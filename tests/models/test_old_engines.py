"""Redis before 6.0: one thread, replies that wait for an event, buffers that move, old strings."""

from typing import Any

import pytest

import forecache
from forecache.hwprofiles import load_host
from forecache.models.advice.configuration import configuration
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.footprint.schema import Hashes, Sets, Strings
from forecache.models.footprint.weigh import NodeFootprint, key_weight
from forecache.models.layouts.generations import generation
from forecache.models.memory.contents import structures
from forecache.models.node.setup import NodeTimes
from forecache.models.scenario.schema import Scenario
from forecache.models.step_times.inputs import NodeInputs
from forecache.models.step_times.stages import node_times
from forecache.models.step_times.values import value_path
from forecache.sim.errors import InputError

VERSIONS = ("2.8", "3.0", "3.2", "4.0", "5.0")
SPEED = load_host("graviton3").speed()
GENERATOR = load_generator("memtier-benchmark").generator_work()


def scenario(**workload: Any) -> Scenario:
    fields = {"clients": 50, "keys": 10_000, "value_bytes": 64, "command": "get", **workload}
    given = {"host": "graviton3", "engine": "redis", "engine_version": "2.8"}
    return Scenario.model_validate({**given, "workload": fields})


def times(engine: EngineProfile, **workload: Any) -> NodeTimes:
    work = engine.engine_work()
    return node_times(NodeInputs(scenario(**workload), engine, work, SPEED, GENERATOR, SPEED))


def asked(version: str, **changes: Any) -> dict[str, Any]:
    workload = {"clients": 20, "keys": 10_000}
    data = {"host": "graviton3", "engine": "redis", "engine_version": version}
    return {**data, "workload": workload, **changes}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_came_with_6_0_is_refused_in_one_sentence(version: str) -> None:
    name = f"redis-{version}"
    with pytest.raises(InputError, match=rf"'io_threads': found 4; valid with {name} is 1, since"):
        forecache.simulate(asked(version, io_threads=4))
    with pytest.raises(InputError, match=rf"'tls': found .*; valid with {name} is none, since"):
        forecache.simulate(asked(version, tls=True))
    assert configuration(scenario(), load_engine(name)) == ""


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_and_node_know_the_same_layout(version: str) -> None:
    assert load_engine("redis", version).layout == generation("redis", version).keys


def test_a_reply_that_waits_for_an_event_takes_it_two_calls_and_a_turn() -> None:
    engine = load_engine("redis-2.8")
    plain = engine.model_copy(update={"replies_by_event": False})
    waiting, written = times(engine), times(plain)
    assert (waiting.loop_ps, waiting.poll_ps) == pytest.approx(
        (2 * written.loop_ps, 2 * written.poll_ps), abs=1
    )
    calls_ns = 2 * 0.44 * SPEED.epoll_ctl_ns + SPEED.epoll_event_ns
    more_ps = 1000 * engine.work["kernel_scale"].best * calls_ns
    assert waiting.send_ps - written.send_ps == pytest.approx(more_ps, abs=1)
    assert load_engine("redis-3.2").turns_per_round == 1


@pytest.mark.parametrize(
    ("pipeline", "moved_bytes"),
    # Half of all others of a read lies behind a command, in the mean; a read takes 16 KiB.
    [(1, 0.0), (16, 7.5), (1024, None)],
)
def test_what_is_left_of_a_read_moves_after_every_command(
    pipeline: int, moved_bytes: float | None
) -> None:
    engine = load_engine("redis-3.2")
    inputs = NodeInputs(
        scenario(pipeline=pipeline), engine, engine.engine_work(), SPEED, GENERATOR, SPEED
    )
    request = inputs.request_bytes
    expected = (16_384 - request) / 2 if moved_bytes is None else moved_bytes * request
    assert inputs.moving_ns == pytest.approx(0.05 * expected / SPEED.clock_ghz)
    stays = times(engine.model_copy(update={"moves_rest": False}), pipeline=pipeline)
    more_ps = times(engine, pipeline=pipeline).parse_by_code_ps - stays.parse_by_code_ps
    assert more_ps == pytest.approx(1000 * inputs.moving_ns, abs=1)
    assert not load_engine("redis-5.0").moves_rest


@pytest.mark.parametrize(("version", "copied"), [("2.8", False), ("3.2", False), ("4.0", True)])
def test_large_values_are_sent_from_where_they_lie_up_to_3_2(version: str, copied: bool) -> None:
    engine = load_engine("redis", version)
    for value_bytes, referenced in ((16_383, False), (16_384, not copied)):
        path = value_path("get", value_bytes, scenario(value_bytes=value_bytes), engine)
        assert path.referenced == referenced


@pytest.mark.parametrize(
    ("version", "value_bytes", "blocks"),
    [
        # Object of 16, string of 8 + 8 + 1 (class 32 of jemalloc 3).
        ("2.8", 8, (16, 32)),
        ("3.0", 8, (48, 0)),  # 16 + 8 + 8 + 1 = 33
        ("3.0", 39, (64, 0)),  # 16 + 8 + 39 + 1 = 64
        ("3.0", 40, (16, 64)),  # 8 + 40 + 1 = 49
        ("3.2", 44, (64, 0)),  # 16 + 3 + 44 + 1 = 64
        ("5.0", 45, (16, 56)),  # 3 + 45 + 1 = 49, a class every 8 bytes
    ],
)
def test_blocks_of_a_value(version: str, value_bytes: int, blocks: tuple[int, int]) -> None:
    g = generation("redis", version)
    data = Strings(type="string", keys=1, key_bytes=16, value_bytes=value_bytes)
    found = key_weight(NodeFootprint(g, g.allocator), data).blocks
    assert (found.object, found.value) == blocks
    # What a look-up waits for are the same blocks.
    names = [s.name for s in structures(g.keys, keys=100, key_bytes=16, value_bytes=value_bytes)]
    assert ("value" in names) == (found.value > 0)


@pytest.mark.parametrize(
    ("version", "each"),
    [
        ("2.8", 32 + 16 + 32),  # entry; object; string of 8 + 20 + 1
        ("3.0", 32 + 48),  # entry; object with string inside, 16 + 8 + 20 + 1
        ("3.2", 24 + 40),  # the same with a header of 3, and a class every 8 bytes
        ("4.0", 24 + 24),  # entry; string of 1 + 20 + 1
    ],
)
def test_a_member_of_a_large_set(version: str, each: int) -> None:
    g = generation("redis", version)
    data = Sets(type="set", keys=1, members=4096, member_bytes=20)
    content = key_weight(NodeFootprint(g, g.allocator), data).content
    assert (content.items - 96) / data.members == each


def test_a_field_of_a_large_hash_of_3_2_has_two_objects() -> None:
    g = generation("redis", "3.2")
    data = Hashes(type="hash", keys=1, fields=4096, field_bytes=20, value_bytes=100)
    content = key_weight(NodeFootprint(g, g.allocator), data).content
    # Entry; object with the field inside; object and string of 3 + 100 + 1.
    assert (content.items - 96) / data.fields == 24 + 40 + 16 + 112


@pytest.mark.parametrize(
    ("version", "object_bytes"),
    # From 3.0 to 4.0 that of the string that it came as: 16 + 8 + 5 + 1, then 16 + 3 + 5 + 1.
    [("2.8", 16), ("3.0", 32), ("3.2", 32), ("4.0", 32), ("5.0", 16)],
)
def test_a_whole_number_keeps_the_room_of_its_string(version: str, object_bytes: int) -> None:
    g = generation("redis", version)
    data = Strings(type="string", keys=1, key_bytes=16, value_bytes=5, integers=True)
    found = key_weight(NodeFootprint(g, g.allocator), data).blocks
    assert (found.object, found.value) == (object_bytes, 0)
