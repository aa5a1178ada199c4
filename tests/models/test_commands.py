"""Commands beyond GET and SET: their bytes, keys, work, and the lines they touch."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.models.engines.commands import (
    CommandKind,
    check_bytes_on_the_way,
    check_commands,
    command_kinds,
    counted_on,
    execute_instructions,
    repeated_instructions,
    work_of,
)
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import EngineProfile, load_engine
from forecache.models.footprint.answers import memory
from forecache.models.layouts.generations import generation
from forecache.models.memory.contents import (
    collection_structures,
    command_structures,
    keys_asked,
    packed_entry_bytes,
)
from forecache.models.memory.lines import Structure
from forecache.models.memory.waits import items_in_flight
from forecache.models.node import layout as at
from forecache.models.node.reference import run_reference
from forecache.models.node.setup import NodeTimes
from forecache.models.node.simulate import run_compiled
from forecache.models.prediction.caveats import not_covered
from forecache.models.prediction.node_setup import node_setup
from forecache.models.prediction.system import System
from forecache.models.scenario.command_table import COMMANDS, DESCRIBED_BY
from forecache.models.scenario.schema import Scenario
from forecache.models.scenario.sweeps import expand
from forecache.models.scenario.workload import WORKLOADS
from forecache.models.step_times.inputs import NodeInputs, user_rate
from forecache.models.step_times.stages import node_times
from forecache.models.step_times.workload_caches import command_waits, workload_caches
from forecache.sim.errors import InputError

SPEED = load_host("graviton3-c7g.4xlarge").speed()
GENERATOR = load_generator("memtier-benchmark").generator_work()

SYSTEM = System(
    load_host("graviton3-c7g.4xlarge"),
    load_engine("valkey-9.1"),
    load_generator("memtier-benchmark"),
)

SETS = {"keys": 1000, "members": 5000, "member_bytes": 11}
HASHES = {"keys": 1000, "fields": 20, "field_bytes": 7, "value_bytes": 30}


SCRIPT = {
    "name": "myscript",
    "share": 0.25,
    "execution_us": 85,
    "request_bytes": 60,
    "reply_bytes": 900,
}


def scenario(io_threads: int = 1, **workload: Any) -> Scenario:
    data = {"host": "graviton3", "engine": "valkey", "io_threads": io_threads}
    [case] = expand({**data, "workload": workload}, file="test", schema=Scenario)
    return case.scenario


def times(case: Scenario, engine_id: str = "valkey-9.1") -> NodeTimes:
    engine = load_engine(engine_id)
    return node_times(NodeInputs(case, engine, engine.engine_work(), SPEED, GENERATOR, SPEED))


def resp(*words: str) -> int:
    parts = [f"${len(word)}\r\n{word}\r\n" for word in words]
    return len(f"*{len(words)}\r\n" + "".join(parts))


@pytest.mark.parametrize(
    ("kind", "request_words", "reply_words"),
    [
        (CommandKind("mget", 9, 1.0, 12), ["mget", *["k" * 16] * 12], ["v" * 9] * 12),
        (CommandKind("mset", 9, 1.0, 3), ["mset", *["k" * 16, "v" * 9] * 3], None),
        (
            CommandKind("zadd", 0, 1.0, 2, 500, 11),
            ["zadd", "k" * 16, *["123456", "m" * 11] * 2],
            None,
        ),
        (
            CommandKind("zrange", 0, 1.0, 4, 500, 11),
            ["zrange", "k" * 16, "123456", "123460"],
            ["m" * 11] * 4,
        ),
        (
            CommandKind("hset", 30, 1.0, 2, 20, 7),
            ["hset", "k" * 16, *["f" * 7, "v" * 30] * 2],
            None,
        ),
        (
            CommandKind("hgetall", 30, 1.0, 20, 20, 7),
            ["hgetall", "k" * 16],
            ["f" * 7, "v" * 30] * 20,
        ),
    ],
)
def test_bytes_on_the_wire(
    kind: CommandKind, request_words: list[str], reply_words: list[str] | None
) -> None:
    assert kind.request_bytes(16) == resp(*request_words)
    assert kind.arguments == len(request_words)
    if reply_words is None:
        assert kind.reply_bytes in (len("+OK\r\n"), len(":0\r\n"))
        assert kind.returned_bytes == 0
    else:
        assert kind.reply_bytes == resp(*reply_words)
        assert kind.returned_bytes == sum(map(len, reply_words))


def test_hget_asks_for_one_value() -> None:
    kind = CommandKind("hget", 30, 1.0, 1, 20, 7)
    assert kind.request_bytes(16) == resp("hget", "k" * 16, "f" * 7)
    assert kind.reply_bytes == len("$30\r\n") + 30 + 2


def test_a_name_in_info_belongs_to_one_row_of_the_table() -> None:
    names = [each for name, row in COMMANDS.items() for each in (name, *row.also)]
    assert len(names) == len(set(names))


def test_a_mix_of_everything() -> None:
    mix = {
        "get": 0.4,
        "mget": {"share": 0.2, "keys": 10},
        "zadd": 0.1,
        "zrange": {"share": 0.1, "members": 20},
        "hset": {"share": 0.05, "fields": 3},
        "hgetall": 0.15,
    }
    case = scenario(mix=mix, sorted_sets=SETS, hashes=HASHES, value_bytes=100)
    kinds = {kind.command: kind for kind in command_kinds(case)}
    assert sum(kind.share for kind in kinds.values()) == pytest.approx(1.0)
    assert kinds["mget"].keys == 10
    assert (kinds["zrange"].items, kinds["zrange"].size, kinds["zrange"].keys) == (20, 5000, 1)
    assert kinds["hgetall"].items == 20
    assert times(case).keys_by_code.tolist() == [1, 10, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"mix": {"get": 0.5, "mget": {"share": 0.4, "keys": 5}}}, ["add up to 1", "0.9"]),
        ({"mix": {"mget": 1.0}}, ["mix.mget.keys"]),
        ({"mix": {"mget": {"share": 1, "keys": 0}}}, ["mix.mget.keys", "0"]),
        ({"mix": {"get": 1.0}, "hashes": HASHES}, ["hashes only with"]),
        ({"mix": {"lpop": {"share": 1.0, "elements": 3}}}, ["mix.lpop", "elements"]),
        ({"mix": {"json_get": 1.0}}, ["json_get"]),
    ],
)
def test_mistakes_are_named(workload: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        scenario(**workload)
    assert all(word in str(error.value) for word in words), error.value


def test_an_engine_without_counts_says_so() -> None:
    case = scenario(mix={"mget": {"share": 1.0, "keys": 5}})
    with pytest.raises(
        InputError, match=r"workload\.mix': found mget; valid with x is get and set"
    ):
        check_commands(case, {}, engine="x")
    check_commands(scenario(command="get"), {}, engine="x")


def test_an_engine_without_a_command_says_which_it_has_on_such_keys() -> None:
    counted = {name: 1.0 for command in ("lpush", "rpop") for name in work_of(command)}
    check_commands(scenario(mix={"lpush": 0.5, "rpop": 0.5}), counted, engine="x")
    with pytest.raises(InputError) as error:
        check_commands(scenario(mix={"lindex": 1.0}), counted, engine="x")
    said = "found lindex; valid with x is on a list one of lpush, rpop"
    assert said in str(error.value)
    assert "`mix.other` takes any command" in str(error.value)


def test_a_part_of_a_command_is_no_profile() -> None:
    data = load_engine("valkey-9.1").model_dump(mode="json", by_alias=True)
    whole = {n: each for n, each in data["commands"].items() if not n.startswith("zrange_")}
    assert "zrange" not in counted_on(EngineProfile(**data | {"commands": whole}).commands)
    del whole["zadd_table_instructions"]
    with pytest.raises(ValueError, match="all numbers of a command or none"):
        EngineProfile(**data | {"commands": whole})


@pytest.mark.parametrize(
    ("command", "collection", "words"),
    [
        ("hget", "hash", "hashes are not described: 100,000 of 10 fields are taken"),
        ("lrange", "list", "lists are not described: 100,000 of 100 elements are taken"),
        ("sismember", "set", "sets are not described: 100,000 of 100 members are taken"),
        ("zrank", "sorted_set", "sorted_sets are not described: 100,000 of 100 members are taken"),
        ("xadd", "stream", "streams are not described: 100,000 of 1,000 entries are taken"),
    ],
)
def test_collections_have_plain_defaults_which_the_answer_says(
    command: str, collection: str, words: str
) -> None:
    case = scenario(mix={command: 1.0})
    [kind] = command_kinds(case)
    assert kind.size == case.workload.collections[collection].size
    said = not_covered(case, SYSTEM)
    assert words in said
    described = scenario(mix={command: 1.0}, **{DESCRIBED_BY[collection]: {"keys": 7}})
    assert not [each for each in not_covered(described, SYSTEM) if "described" in each]


@pytest.mark.parametrize("engine_id", ["redis-7.0", "valkey-9.1"])
@pytest.mark.parametrize("io_threads", [1, 4])
def test_every_counted_command_has_times(engine_id: str, io_threads: int) -> None:
    commands = counted_on(load_engine(engine_id).commands)
    for command in commands:
        asked = {"share": 1.0, "keys": 3} if COMMANDS[command].items == "keys" else 1.0
        found = times(scenario(io_threads, mix={command: asked}), engine_id)
        assert found.execute_by_code_ps[0] > 0
        assert (found.stall_ps >= 0).all()
        assert found.stall_ps.any() == (
            "key" in (*COMMANDS[command].words, *COMMANDS[command].each)
        )


def test_what_repeats_in_a_command_is_as_fast_as_the_host_says() -> None:
    work = load_engine("redis-7.0").engine_work().commands
    walk = scenario(mix={"hgetall": 1.0}, hashes={**HASHES, "fields": 40})
    [kind] = command_kinds(walk)
    repeated = repeated_instructions(kind, work)
    assert 0.0 < repeated < execute_instructions(kind, work)

    def execute_ps(of: Scenario, ratio: float) -> float:
        speed, engine = replace(SPEED, repeat_ipc_ratio=ratio), load_engine("redis-7.0")
        inputs = NodeInputs(of, engine, engine.engine_work(), speed, GENERATOR, speed)
        return float(node_times(inputs).execute_by_code_ps[0])

    saved_ps = execute_ps(walk, 1.0) - execute_ps(walk, 2.0)
    assert saved_ps == pytest.approx(1e3 * repeated / 2.0 / user_rate(SPEED), rel=0.01)
    look_up = scenario(mix={"get": 1.0})
    assert execute_ps(look_up, 1.0) == execute_ps(look_up, 2.0)

    # Values that I/O threads make don't make the main thread faster.
    many = scenario(io_threads=4, mix={"mset": {"share": 1.0, "keys": 10}})
    [kind] = command_kinds(many)
    made = kind.stored_values * load_engine("redis-7.0").engine_work().value_instructions
    kept = repeated_instructions(kind, work) - made
    assert 0.0 < made < kept
    saved_ps = execute_ps(many, 1.0) - execute_ps(many, 2.0)
    assert saved_ps == pytest.approx(1e3 * kept / 2.0 / user_rate(SPEED), rel=0.01)


@pytest.mark.parametrize("command", ["lrange", "smembers", "xrange", "zrange", "hgetall", "lindex"])
def test_more_entries_take_no_less(command: str) -> None:
    row, work = COMMANDS[command], load_engine("redis-7.0").engine_work().commands
    field = DESCRIBED_BY[row.type]

    def found(size: int) -> tuple[float, float]:
        asked = {"share": 1.0, row.items: size} if row.items not in ("one", "all") else 1.0
        like = {WORKLOADS[row.type].items: size}
        [kind] = command_kinds(scenario(mix={command: asked}, **{field: like}))
        lines = collection_structures(kind, generation("redis", "7.0"), all_keys=1000, key_bytes=16)
        return execute_instructions(kind, work), sum(s.touches * (1.0 + s.followers) for s in lines)

    for small, large in ((4, 32), (32, 120), (600, 6000)):
        assert all(a <= b for a, b in zip(found(small), found(large), strict=True))


def test_lists_and_streams_take_blocks_of_bounded_size() -> None:
    def blocks(command: str, size: int) -> float:
        kind = CommandKind(command, 16, 1.0, 1, size, 16)
        found = collection_structures(kind, generation("redis", "7.0"), all_keys=10, key_bytes=16)
        return 64 * next(s.lines_per_key for s in found if s.name == "listpack")

    for command, most in (("lrange", 8192), ("xrange", 4096)):
        kind = CommandKind(command, 16, 1.0, 1, 10**6, 16)
        assert kind.packed_entries * packed_entry_bytes(kind) <= most
        assert blocks(command, 10**6) == pytest.approx(10 * blocks(command, 10**5), rel=0.01)


def given(execution_us: float, **more: Any) -> Scenario:
    return scenario(mix={"get": 0.75, "other": [SCRIPT | {"execution_us": execution_us} | more]})


def test_any_other_command_takes_what_is_given() -> None:
    short, long = times(given(15.0)), times(given(100.0))
    assert (long.execute_by_code_ps - short.execute_by_code_ps).tolist() == [0, 85_000_000]
    assert (long.request_bytes_by_code[1], long.reply_bytes_by_code[1]) == (60, 900)
    # It looks up a key as a GET does, or none.
    assert long.stall_ps[1].tolist() == long.stall_ps[0].tolist()
    assert not times(given(100.0, keys=0)).stall_ps[1].any()


@pytest.mark.parametrize("keys", [0, 1])
def test_another_command_alone_looks_up_as_many_keys_as_it_says(keys: int) -> None:
    case = scenario(mix={"other": [SCRIPT | {"share": 1.0, "keys": keys}]})
    kinds = command_kinds(case)
    assert [kind.keys for kind in kinds] == [keys]
    assert keys_asked("string", kinds, case.workload) == pytest.approx(keys, abs=1e-6)
    found = times(case)
    assert found.stall_ps[0].any() == bool(keys)
    assert (found.execute_by_code_ps > 0).all()


@pytest.mark.parametrize(
    ("mix", "kinds"),
    [
        ({"other": [SCRIPT | {"share": 1.0, "keys": 0}]}, ["string"]),
        ({"zadd": 0.75, "other": [SCRIPT | {"keys": 0}]}, ["sorted_set"]),
        ({"zadd": 0.75, "other": [SCRIPT]}, ["string", "sorted_set"]),
    ],
)
def test_memory_holds_strings_where_a_command_has_such_a_key(
    mix: dict[str, Any], kinds: list[str]
) -> None:
    more = {"sorted_sets": SETS} if "zadd" in mix else {}
    node = {"host": "c7g.large", "engine": "valkey", "workload": {"mix": mix, "keys": 1000, **more}}
    [point] = memory(node).points
    assert [each.type for each in point.populations] == kinds


def test_replies_of_any_other_command_count_on_the_way() -> None:
    many = [SCRIPT | {"share": 1.0, "reply_bytes": 64 * 2**20}]
    with pytest.raises(InputError, match=r"workload.mix.other.*GiB on the way"):
        check_bytes_on_the_way(scenario(mix={"other": many}, clients=10_000))


def test_any_other_command_is_logged_where_it_writes() -> None:
    def logged(*, writes: bool) -> list[int]:
        case = given(20.0, writes=writes).model_copy(update={"replicas": 1})
        return times(case).logged_bytes_by_code.tolist()

    assert (logged(writes=False), logged(writes=True)) == ([0, 0], [0, 60])


@pytest.mark.parametrize("compiled", [True, False])
def test_the_server_computes_its_share_times_its_execution_time_longer(compiled: bool) -> None:
    def request_us(execution_us: float) -> float:
        engine, case = load_engine("valkey-9.1"), given(execution_us)
        inputs = NodeInputs(case, engine, engine.engine_work(), SPEED, GENERATOR, SPEED)
        setup = node_setup(inputs, warmup_ps=10**10, end_ps=10**11, seed=1, replication=0)
        if not compiled:
            found = run_reference("single_thread", node_times(inputs), setup)
            return found.threads[0].on_cpu_ps / found.latency.count / 1e6
        node = at.new_node(node_times(inputs), setup)
        run_compiled("single_thread", node)
        return node.thread(0, "on_cpu_ps") / node.latency().count / 1e6

    assert request_us(100.0) - request_us(15.0) == pytest.approx(0.25 * 85.0, rel=0.03)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "hget"}, ["mix.other[0].name", "hget", "no other command"]),
        ({"name": "MyScript"}, ["mix.other[0].name", "'MyScript'", "lower-case letters"]),
        ({"execution_us": 0}, ["mix.other[0].execution_us", "above 0"]),
        ({"keys": 2}, ["mix.other[0].keys", "1"]),
        ({"replies": 2}, ["mix.other[0].replies", "reply_bytes"]),
        ({"reply_bytes": None}, ["mix.other[0].reply_bytes", "its bytes on the wire"]),
    ],
)
def test_mistakes_about_other_commands_are_named(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        given(**{"execution_us": 20.0, **changes})
    assert all(word in str(error.value) for word in words), error.value


# --- transactions and scripts ----------------------------------------------------------------


def calling(how: str, calls: dict[str, int], **more: Any) -> Scenario:
    other = {"name": "checkout", "share": 0.25, how: calls, **more}
    return scenario(mix={"get": 0.75, "other": [other]}, value_bytes=64)


def test_a_transaction_takes_what_its_commands_and_calling_them_take() -> None:
    work = load_engine("valkey-9.1").engine_work()
    # As many commands of each as are executed, so that mixing them costs as much.
    plain = times(scenario(mix={"get": 2 / 3, "incr": 1 / 3}, value_bytes=64))
    found = times(calling("transaction", {"get": 1, "incr": 2}))
    rate = SPEED.user_ipc * SPEED.clock_ghz
    around = work.commands["transaction_instructions"]
    around += 3 * work.commands["transaction_instructions_per_call"]
    get_ps, incr_ps = plain.execute_by_code_ps
    expected = get_ps + 2 * incr_ps + 1000 * around / rate
    assert found.execute_by_code_ps[1] == pytest.approx(expected, rel=1e-3)
    get_ps, incr_ps = plain.parse_by_code_ps
    # MULTI and EXEC are one word each, a GET is two.
    around = work.parse_instructions - work.commands["argument_instructions"]
    parsed = get_ps + 2 * incr_ps + 2 * 1000 * around / rate
    assert found.parse_by_code_ps[1] == pytest.approx(parsed, rel=1e-3)


def test_bytes_of_a_transaction_are_those_on_the_wire() -> None:
    [_, kind] = command_kinds(calling("transaction", {"get": 1, "set": 2}))
    key, value = "k" * 16, "v" * 64
    asked = resp("MULTI") + resp("get", key) + 2 * resp("set", key, value) + resp("EXEC")
    assert kind.request_bytes(16) == asked
    replies = len(f"${64}\r\n{value}\r\n") + 2 * len("+OK\r\n")
    assert kind.reply_bytes == len("+OK\r\n*3\r\n") + 3 * len("+QUEUED\r\n") + replies


def test_a_script_names_the_words_of_its_commands_and_replies_with_an_integer() -> None:
    [_, kind] = command_kinds(calling("script", {"get": 1, "set": 2}))
    words = ["k" * 16, *["k" * 16, "v" * 64] * 2]
    assert kind.request_bytes(16) == resp("EVALSHA", "a" * 40, "3", *words)
    assert (kind.reply_bytes, kind.arguments) == (len(":0\r\n"), 3 + len(words))
    [_, said] = command_kinds(calling("script", {"get": 1}, request_bytes=90, reply_bytes=7))
    assert (said.request_bytes(16), said.reply_bytes) == (90, 7)


@pytest.mark.parametrize("how", ["transaction", "script"])
def test_keys_of_what_is_called_are_waited_for_one_after_the_other(how: str) -> None:
    found = times(calling(how, {"get": 4}))
    one, four = found.stall_ps
    assert four.mean() == pytest.approx(4 * one.mean(), rel=0.1)
    assert four.std() == pytest.approx(2 * one.std(), rel=0.1)


def test_a_share_in_transactions_loads_caches_as_the_same_commands_do() -> None:
    alone = times(scenario(mix={"get": 1.0}, keys=10_000_000, value_bytes=64))
    called = {"name": "pairs", "share": 1.0, "transaction": {"get": 1}}
    within = times(scenario(mix={"other": [called]}, keys=10_000_000, value_bytes=64))
    assert within.stall_ps[0].mean() == pytest.approx(alone.stall_ps[0].mean(), rel=0.02)


def test_commands_of_a_transaction_are_logged_where_they_write() -> None:
    def logged(calls: dict[str, int]) -> int:
        case = calling("transaction", calls).model_copy(update={"replicas": 1})
        return int(times(case).logged_bytes_by_code[1])

    assert logged({"get": 3}) == 0
    assert logged({"get": 1, "set": 2}) == 2 * resp("set", "k" * 16, "v" * 64)


def test_called_commands_have_collections_and_are_held_in_memory() -> None:
    mix = {"other": [{"name": "visit", "share": 1.0, "script": {"hget": 1, "zadd": 1}}]}
    assert set(scenario(mix=mix).workload.collections) == {"hash", "sorted_set"}
    node = {"host": "c7g.large", "engine": "valkey", "workload": {"mix": mix, "hashes": HASHES}}
    [point] = memory(node).points
    assert {each.type for each in point.populations} == {"hash", "sorted_set"}


@pytest.mark.parametrize(
    ("how", "calls", "words"),
    [
        ("transaction", {"gett": 1}, ["mix.other[0].transaction", "gett", "of the table"]),
        ("script", {}, ["mix.other[0].script", "at least 1"]),
        ("script", {"get": 0}, ["mix.other[0].script.get", "at least 1"]),
    ],
)
def test_mistakes_about_called_commands_are_named(
    how: str, calls: dict[str, int], words: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        calling(how, calls)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"script": {"get": 1}}, ["mix.other[0].script", "one of execution_us, transaction"]),
        ({"writes": True}, ["mix.other[0].writes", "no such field with transaction"]),
        ({"keys": 1}, ["mix.other[0].keys", "no such field with transaction"]),
    ],
)
def test_a_transaction_says_nothing_twice(more: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as error:
        calling("transaction", {"get": 1}, **more)
    assert all(word in str(error.value) for word in words), error.value


def test_an_engine_on_which_calling_was_not_counted_refuses_it() -> None:
    case = calling("script", {"incr": 1})
    work = {
        name: leaf.best
        for name, leaf in load_engine("valkey-9.1").commands.items()
        if not name.startswith("script")
    }
    with pytest.raises(
        InputError, match=r"found a script \(checkout\); valid with x is execution_us"
    ):
        check_commands(case, work, engine="x")


# --- lines -----------------------------------------------------------------------------------


def test_keys_of_an_mget_wait_together_as_far_as_the_core_works_ahead() -> None:
    one = times(scenario(command="get", keys=10_000_000))
    ten = times(scenario(mix={"mget": {"share": 1.0, "keys": 10}}, keys=10_000_000))
    per_key = load_engine("valkey-9.1").commands["mget_instructions_per_item"].best
    waits = 1.0 + 9.0 / (1.0 + SPEED.reorder_window / per_key)
    assert 5.0 < waits < 9.0
    assert ten.stall_ps.mean() == pytest.approx(waits * one.stall_ps.mean(), rel=0.15)
    # Ten waits vary less than one, for their mean.
    assert ten.stall_ps.std() / ten.stall_ps.mean() < 0.5 * one.stall_ps.std() / one.stall_ps.mean()
    assert np.all(ten.stall_ps >= 0)


@pytest.mark.parametrize("keys", [1_000, 20_000, 1_000_000])
def test_keys_of_an_mget_are_found_where_those_of_as_many_gets_are(keys: int) -> None:
    def in_caches(asked: int) -> np.ndarray:
        engine = load_engine("valkey-9.1")
        case = scenario(mix={"mget": {"share": 1.0, "keys": asked}}, keys=keys, clients=1)
        inputs = NodeInputs(case, engine, engine.engine_work(), SPEED, GENERATOR, SPEED)
        waits = command_waits(inputs.kinds[0], inputs, workload_caches(inputs))
        return np.array([waits.in_l2 @ waits.shares, waits.in_l3 @ waits.shares])

    # Nearly: code and connections are touched once a request, replies of a hundred keys are longer.
    assert in_caches(100) == pytest.approx(in_caches(1), abs=0.08)


def test_items_in_flight_are_bounded_by_the_window_and_by_misses() -> None:
    speed = replace(SPEED, reorder_window=512.0, parallel_misses=20.0)
    assert items_in_flight(speed, 1024.0) == 1.5
    assert items_in_flight(speed, 1.0) == 20.0
    # GETs and commands of one key have no further keys.
    assert items_in_flight(speed, 0.0) == 1.0


def test_a_listpack_is_one_structure_and_a_large_set_many() -> None:
    small = CommandKind("zadd", 0, 1.0, 1, 128, 16)
    large = CommandKind("zadd", 0, 1.0, 1, 129, 16)
    assert small.listpack
    assert not large.listpack
    assert not CommandKind("zadd", 0, 1.0, 1, 10, 65).listpack
    names = [
        s.name
        for s in collection_structures(
            small, generation("valkey", "8.1"), all_keys=1000, key_bytes=16
        )
    ]
    assert names == ["bucket", "entry", "listpack"]
    found = collection_structures(large, generation("valkey", "8.1"), all_keys=1000, key_bytes=16)
    assert [s.name for s in found][-1] == "level 0"
    # Only the way to it is fetched ahead.
    assert [s.name for s in found if s.prefetched] == ["bucket", "entry"]


@pytest.mark.parametrize("version", ["3.2", "7.0", "8.0", "8.6"])
@pytest.mark.parametrize(("command", "data_type"), [("smembers", "set"), ("hgetall", "hash")])
def test_a_walk_meets_each_line_of_a_small_table_once(
    command: str, data_type: str, version: str
) -> None:
    def touched(size: int) -> dict[str, Structure]:
        kind = CommandKind(command, 16, 1.0, size, size, 16)
        assert kind.data_type == data_type
        assert kind.encoding == "table"
        rules = generation("redis", version)
        found = collection_structures(kind, rules, all_keys=10, key_bytes=16)
        return {s.name: s for s in found if s.name.startswith(("element", "scattered"))}

    # Of a small one prefetchers bring what follows the first line.
    for each in touched(600).values():
        assert each.touches == 1.0
        assert each.lines_per_key == pytest.approx(1.0 + each.followers)
    # Of what the caches don't keep meanwhile nearly every member is waited for.
    large = touched(10**6)
    far = [s for name, s in large.items() if name.startswith("scattered")]
    assert len(far) == len(large) // 2
    for each in far:
        assert 0.9e6 < each.touches <= 1e6


@pytest.mark.parametrize("size", [600, 7_000, 9_000, 10**6])
def test_a_walk_has_the_lines_that_a_look_up_has(size: int) -> None:
    """Those that are met together and those that are scattered are all there are."""

    def lines(command: str) -> dict[str, float]:
        kind = CommandKind(command, 1024, 1.0, size, size, 16)
        found = collection_structures(kind, generation("redis", "7.0"), all_keys=10, key_bytes=16)
        total: dict[str, float] = {}
        for each in found:
            name = each.name.split(" ")[-1]
            total[name] = total.get(name, 0.0) + each.lines_per_key
        return total

    walked, looked_up = lines("hgetall"), lines("hset")
    assert walked == pytest.approx(looked_up)


def test_members_that_a_command_names_are_looked_up_beside_each_other() -> None:
    kind = CommandKind("hmget", 16, 1.0, 30, 600, 16)
    found = collection_structures(kind, generation("redis", "7.0"), all_keys=10, key_bytes=16)
    for each in found:
        of_fields = each.name.startswith("element")
        assert each.ways == (30 if of_fields else 1)
        assert each.touches_in_turn(1.0) == pytest.approx(each.touches)
        shorter = each.touches_in_turn(2.0) / each.touches
        assert shorter == pytest.approx(15.5 / 30 if of_fields else 1.0)


@pytest.mark.parametrize("version", ["3.2", "8.6"])
def test_a_range_from_the_end_of_a_sorted_set_needs_no_search(version: str) -> None:
    def levels(command: str) -> list[float]:
        kind = CommandKind(command, 16, 1.0, 10, 10_000, 16)
        rules = generation("redis", version)
        found = collection_structures(kind, rules, all_keys=10, key_bytes=16)
        return [s.touches for s in found if s.name.startswith("level")]

    *above, lowest = levels("zrevrange")
    assert not any(above)
    assert lowest == pytest.approx(10.0)
    assert all(levels("zrange"))


def test_small_sets_are_tables_where_a_version_does_not_pack_them() -> None:
    kind = CommandKind("sismember", 0, 1.0, 1, 100, 16)
    assert kind.listpack
    for version, last in (("7.0", "element name"), ("8.0", "listpack")):
        rules = generation("redis", version)
        found = collection_structures(kind, rules, all_keys=10, key_bytes=16)
        assert found[-1].name == last


def test_a_command_that_came_later_is_refused_with_the_version_that_brought_it() -> None:
    counted = load_engine("redis", "4.0").commands
    asked = scenario(mix={"xadd": 1.0}).model_copy(
        update={"engine": "redis", "engine_version": "4.0"}
    )
    with pytest.raises(InputError, match=r"found xadd; .* since xadd came with Redis 5\.0"):
        check_commands(asked, counted, engine="redis-4.0")


@pytest.mark.parametrize(
    "layout", ["objects", "dict", "dict_embedded_value", "hashtable", "hashtable_embedded_value"]
)
def test_an_engine_of_ones_own_has_collections_as_its_keys_suggest(layout: str) -> None:
    engine = load_engine("valkey-9.1").model_copy(
        update={"engine": "mine", "version": "1.0", "layout": layout}
    )
    asked = scenario(mix={"hgetall": 1.0}, hashes={"fields": 600})
    [kind] = command_kinds(asked)
    found = command_structures(kind, asked, engine, engine.engine_work())
    assert any(s.name.startswith("element") for s in found)


def test_versions_have_the_commands_that_they_came_with() -> None:
    def known(version: str) -> set[str]:
        return set(counted_on(load_engine("redis", version).commands))

    assert {"geoadd", "touch"} & known("3.0") == set()
    assert {"geoadd", "touch"} <= known("3.2") - {"xadd", "unlink"}
    assert {"xadd", "zpopmin", "smismember"} & known("4.0") == set()
    assert "unlink" in known("4.0")
    assert "xadd" in known("5.0")
    assert {"getdel", "geosearch"} & known("6.0") == set()
    assert {"getdel", "geosearch", "xadd"} <= known("6.2")


def test_an_element_lies_in_as_many_blocks_as_its_version_makes() -> None:
    def names(command: str, engine: str, version: str, value_bytes: int = 16) -> list[str]:
        kind = CommandKind(command, value_bytes, 1.0, 600, 600, 16)
        rules = generation(engine, version)
        found = collection_structures(kind, rules, all_keys=10, key_bytes=16)
        return [s.name.removeprefix("element ") for s in found if "element" in s.name][1:]

    assert names("smembers", "redis", "2.8") == ["entry", "name object", "name"]
    assert names("smembers", "redis", "3.2") == ["entry", "name"]
    assert names("smembers", "redis", "7.0") == ["entry", "name"]
    assert names("smembers", "redis", "8.0") == names("smembers", "valkey", "8.1") == ["name"]
    assert names("hgetall", "redis", "7.0") == ["entry", "name", "value"]
    assert names("hgetall", "valkey", "8.1") == names("hgetall", "redis", "8.6") == ["field"]
    assert names("hgetall", "valkey", "8.1", value_bytes=200) == ["field", "value"]
    assert names("hkeys", "valkey", "8.1", value_bytes=200) == ["field"]


@pytest.mark.parametrize("engine", [("redis", "7.0"), ("valkey", "8.0"), ("valkey", "8.1")])
def test_a_skip_list_is_descended_in_logarithmic_time(engine: tuple[str, str]) -> None:
    def descent(members: int) -> float:
        kind = CommandKind("zrange", 0, 1.0, 1, members, 16)
        found = collection_structures(kind, generation(*engine), all_keys=10, key_bytes=16)
        return sum(s.touches for s in found if s.name.startswith("level"))

    assert descent(4**10) - descent(4**6) == pytest.approx(4 * 3, rel=0.05)
    kind = CommandKind("zrange", 0, 1.0, 1, 4**8, 16)
    found = collection_structures(kind, generation(*engine), all_keys=10, key_bytes=16)
    nodes = sum(s.lines_per_key for s in found if s.name.startswith("level"))
    assert nodes == pytest.approx(4**8 * 48 / 64, rel=0.01)


def test_larger_sets_wait_longer() -> None:
    mix = {"zadd": 1.0}
    waits = [
        times(scenario(mix=mix, sorted_sets={"keys": 1000, "members": m})).stall_ps.mean()
        for m in (100, 2_000, 100_000)
    ]
    assert waits[0] < waits[1] < waits[2]


def test_io_threads_take_arguments_and_values_off_the_main_thread() -> None:
    mix = {"mset": {"share": 1.0, "keys": 10}}
    alone, threaded = (times(scenario(n, mix=mix, value_bytes=512)) for n in (1, 4))
    assert threaded.parse_by_code_ps[0] > alone.parse_by_code_ps[0]
    get = times(scenario(command="get"))
    words = load_engine("valkey-9.1").commands["argument_instructions"].best
    rate = SPEED.user_ipc * SPEED.clock_ghz
    one_key = times(scenario(mix={"mget": {"share": 1.0, "keys": 1}}))
    eleven = times(scenario(mix={"mget": {"share": 1.0, "keys": 11}}))
    more_ps = eleven.parse_by_code_ps[0] - one_key.parse_by_code_ps[0]
    assert more_ps == pytest.approx(10 * words / rate * 1000, rel=1e-3)
    assert math.isclose(one_key.parse_by_code_ps[0], get.parse_by_code_ps[0], rel_tol=0.01)
