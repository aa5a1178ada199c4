"""Large commands: closed forms, conservation and monotony."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import forecache
from forecache.hwprofiles import load_host
from forecache.hwprofiles.network import Path as NetworkPath
from forecache.hwprofiles.network import constant
from forecache.models.over_time.large_commands.commands import (
    DataPlace,
    Speed,
    TransferClient,
    TransferLink,
    array_bytes,
    bulk_load,
    copied_bytes,
    flush,
    keys_command,
    large_get,
    set_command,
)
from forecache.models.over_time.large_commands.scenario import LargeCommands
from forecache.models.over_time.large_commands.simulate import (
    RunIntervals,
    ServiceTurns,
    base_latency_s,
    by_time,
    data_place,
    latencies,
    main_thread_s,
    poisson_arrivals,
    timeline,
    waits,
)
from forecache.models.over_time.large_commands.work import (
    TouchedSets,
    all_work,
    load_work,
    member_memory_bytes,
    moved_entries,
)
from forecache.models.prediction.system import UNCHECKED_DISCREPANCY
from forecache.models.prediction.uncertainty import Z95, Draw, Steps
from forecache.models.results.series import Fact
from forecache.sim.errors import InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "large-commands.yaml"
HOST = load_host("c7g.4xlarge").speed()
ENGINES = [(work.engine, work.version) for work in all_work().values()]
engines = pytest.mark.parametrize(("engine", "version"), ENGINES)


def place(
    engine: str = "redis",
    version: str = "7.0",
    *,
    gbit_per_s: float = 10.0,
    element_ns: float | None = None,
) -> DataPlace:
    work = load_work(engine, version).work
    speed = Speed(HOST)
    client = TransferClient(
        speed, None if element_ns is not None else work.client, element_ns or 0.0
    )
    return DataPlace(
        work, speed, TransferLink(NetworkPath([constant(gbit_per_s)]), 30.0, 9001.0), client
    )


def two_sets(members: int, shared: int = 0, *, same_key: bool = False) -> TouchedSets:
    return TouchedSets(members, members, members if same_key else shared, same_key, 64)


# --- waiting -----------------------------------------------------------------------------------


def test_waits_of_random_arrivals_are_those_of_pollaczek_and_khinchine() -> None:
    random = np.random.default_rng(3)
    arrival = poisson_arrivals(1000.0, 600.0, random)
    service = 6e-4
    found = waits(arrival, np.full(arrival.size, service)).mean()
    used = 1000.0 * service
    assert found == pytest.approx(used * service / (2 * (1 - used)), rel=0.03)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3)), min_size=1, max_size=40))
def test_waits_are_lindleys(customers: list[tuple[float, float]]) -> None:
    gaps, services = (np.array(column) for column in zip(*customers, strict=True))
    arrival = np.cumsum(gaps)
    expected, wait = [], 0.0
    for place_, (_, service) in enumerate(customers):
        expected.append(wait)
        if place_ + 1 < len(customers):
            wait = max(0.0, wait + service - gaps[place_ + 1])
    assert waits(arrival, services) == pytest.approx(expected, abs=1e-9)


def test_others_wait_for_the_rest_of_a_command_and_catch_up_afterwards() -> None:
    arrival = np.arange(0.0, 20.0, 0.001) + 1e-6
    service = 5e-4  # half of the time is used
    found = latencies(
        arrival,
        service_s=service,
        blocks=[(5.0, 2.0)],
        turns=[],
        random=np.random.default_rng(1),
    )
    assert found.max() == pytest.approx(2.0 + service, rel=0.01)
    # Who came k steps after it began waits that much less, and half as much more for those before.
    after_one_second = found[np.searchsorted(arrival, 6.0)]
    assert after_one_second == pytest.approx(1.0 + 0.5, rel=0.01)
    # At the end 2 s of work (half of it the others') are behind; it is worked off at half speed.
    late = arrival[found > 2 * service]
    assert late.max() == pytest.approx(5.0 + 2.0 / 0.5, rel=0.01)
    assert found[: np.searchsorted(arrival, 5.0)] == pytest.approx(service)


def test_who_comes_during_a_turn_waits_for_its_rest() -> None:
    random = np.random.default_rng(2)
    arrival = poisson_arrivals(100.0, 1000.0, random)
    stretch = ServiceTurns(0.0, 1000.0, turn_s=0.01, busy=0.5)
    found = latencies(arrival, service_s=1e-9, blocks=[], turns=[stretch], random=random)
    assert found.mean() == pytest.approx(0.5 * 0.01 / 2, rel=0.02)
    assert found.max() <= 0.0101


def test_latency_by_time_counts_everybody_once() -> None:
    arrival = np.array([0.1, 0.2, 1.5, 2.9])
    *_, longest, count = by_time(
        arrival, np.array([1.0, 3.0, 2.0, 5.0]), np.array([0.0, 1.0, 2.0, 2.5, 3.0])
    )
    assert count.tolist() == [2, 1, 0, 1]
    assert longest[[0, 1, 3]].tolist() == [3.0, 2.0, 5.0]
    assert math.isnan(longest[2])
    assert count.sum() == arrival.size


# --- bytes and tables --------------------------------------------------------------------------


@given(st.integers(0, 300), st.integers(1, 300))
def test_bytes_of_a_reply_are_those_of_the_protocol(elements: int, size: int) -> None:
    reply = f"*{elements}\r\n" + f"${size}\r\n{'x' * size}\r\n" * elements
    assert array_bytes(elements, size) == len(reply)


def test_a_text_that_is_copied_whole_for_each_chunk_costs_the_square_of_its_length() -> None:
    chunk = 4 << 20
    assert copied_bytes(chunk, "whole_copies") == 0
    assert copied_bytes(10 * chunk, "whole_copies") == sum(k * chunk for k in range(1, 10))
    longer = copied_bytes(2e9, "whole_copies") / copied_bytes(1e9, "whole_copies")
    assert longer == pytest.approx(4.0, rel=0.01)
    assert copied_bytes(2e9, "size_classes") / copied_bytes(1e9, "size_classes") < 2.2


@given(st.integers(1, 3000))
def test_a_dict_moves_an_entry_per_addition(members: int) -> None:
    """Against tables in which every addition moves one bucket to one of twice the size."""
    buckets, moved, left = 4, 0, 0
    for count in range(members):
        if left:
            moved, left = moved + 1, left - 1
        elif count >= buckets:
            left, buckets = buckets - 1, 2 * buckets
            moved += 1
    assert moved_entries("dict", members) == pytest.approx(moved, abs=buckets / 8 + 1)


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 50))
def test_results_are_those_of_sets(first: int, second: int, shared: int) -> None:
    shared = min(first, second, shared)
    a, b = set(range(first)), set(range(first - shared, first - shared + second))
    sets = TouchedSets(first, second, shared, False, 64)
    assert sets.result("sinter") == len(a & b)
    assert sets.result("sunion") == len(a | b)
    assert sets.result("sdiff") == len(a - b)
    assert sets.result("smembers") == len(a)


# --- commands ----------------------------------------------------------------------------------


@engines
@pytest.mark.parametrize("command", ["smembers", "sinter", "sunion", "sdiff"])
def test_more_members_take_longer_and_every_byte_is_carried(
    engine: str, version: str, command: str
) -> None:
    where = place(engine, version)
    before = 0.0
    for members in (20_000, 200_000, 2_000_000):
        sets = TouchedSets(members, 0 if command == "smembers" else members, 0, False, 64)
        lasting = set_command(where, command, sets)
        assert lasting.lasts_ns > 5 * before
        before = lasting.lasts_ns
        assert lasting.elements == sets.result(command)
        assert lasting.moved.total_bytes == array_bytes(lasting.elements, 64)
        assert lasting.turns >= lasting.moved.total_bytes / 65536
        assert lasting.turn_ns * lasting.turns == pytest.approx(lasting.moved.server_ns)


@engines
def test_what_two_sets_share_moves_from_the_difference_to_the_intersection(
    engine: str, version: str
) -> None:
    where = place(engine, version)
    shares = [0, 250_000, 500_000, 1_000_000]
    sinter = [set_command(where, "sinter", two_sets(10**6, s)).lasts_ns for s in shares]
    sdiff = [set_command(where, "sdiff", two_sets(10**6, s)).lasts_ns for s in shares]
    sunion = [set_command(where, "sunion", two_sets(10**6, s)).lasts_ns for s in shares]
    assert sinter == sorted(sinter)
    assert sdiff == sorted(sdiff, reverse=True)
    assert sunion == sorted(sunion, reverse=True)


def test_the_slowest_party_binds() -> None:
    sets = two_sets(10**6, 10**6)
    assert set_command(place(gbit_per_s=1000, element_ns=1), "sinter", sets).binds == "server"
    assert set_command(place(gbit_per_s=0.1, element_ns=1), "sinter", sets).binds == "network"
    slow = set_command(place(gbit_per_s=1000, element_ns=20_000), "sinter", sets)
    assert slow.binds == "client"
    assert slow.stream_ns == pytest.approx(1e6 * 20_000, rel=0.05)


def test_nothing_is_faster_than_the_network() -> None:
    lasting = set_command(place(gbit_per_s=1.0), "smembers", TouchedSets(10**6, 0, 0, False, 64))
    assert lasting.stream_ns >= lasting.moved.total_bytes * 8.0


def test_only_a_same_named_set_is_left_unsearched() -> None:
    where = place("redis", "2.8")
    named_twice = set_command(where, "sdiff", two_sets(10**6, same_key=True))
    equal = set_command(where, "sdiff", two_sets(10**6, 10**6))
    assert named_twice.elements == equal.elements == 0
    assert named_twice.lasts_ns < equal.lasts_ns / 2


@engines
def test_a_load_takes_as_long_per_member_however_many_sets(engine: str, version: str) -> None:
    where = place(engine, version)
    loads = [
        bulk_load(where, sets=n, members=10**6, member_bytes=64, key_bytes=16, inline=True)
        for n in (1, 4)
    ]
    assert loads[1].lasts_ns == pytest.approx(4 * loads[0].lasts_ns, rel=0.05)
    assert loads[0].moved.total_bytes == 10**6 * len(f"SADD {'k' * 16} {'m' * 64}\r\n")
    protocol = bulk_load(where, sets=1, members=10**6, member_bytes=64, key_bytes=16, inline=False)
    one = f"*3\r\n$4\r\nSADD\r\n$16\r\n{'k' * 16}\r\n$64\r\n{'m' * 64}\r\n"
    assert protocol.moved.total_bytes == 10**6 * len(one)
    assert loads[0].execution_ns == 0, "others are served between reads"


def test_freeing_blocks_unless_it_is_done_in_the_background() -> None:
    where = place("valkey", "9.1")
    blocking = flush(where, members=10**7, member_bytes=64, mode="sync")
    aside = flush(where, members=10**7, member_bytes=64, mode="async")
    assert blocking.execution_ns == aside.background_ns
    assert aside.execution_ns < 1e6
    assert flush(where, members=10**7, member_bytes=64) == aside, "Valkey's default"
    old = place("redis", "2.8")
    assert flush(old, members=10**7, member_bytes=64).execution_ns > 1e9
    with pytest.raises(InputError, match="mode"):
        flush(old, members=10, member_bytes=64, mode="async")


def test_a_value_that_is_not_copied_takes_the_main_thread_less() -> None:
    where = place("valkey", "9.1")
    copied = large_get(where, value_bytes=8 << 20, copies=True)
    referenced = large_get(where, value_bytes=8 << 20, copies=False)
    assert referenced.main.total_ns < copied.main.total_ns
    assert referenced.moved == copied.moved


def test_keys_visits_every_key() -> None:
    few, many = (keys_command(place(), keys=n, key_bytes=16) for n in (10**5, 10**7))
    assert many.execution_ns > 100 * few.execution_ns * 0.9
    assert many.elements == 10**7


def test_a_set_of_redis_28_weighs_what_its_parts_do() -> None:
    # 32 entry + 16 object + 80 string, and 2^24 buckets of 8 bytes.
    assert member_memory_bytes("objects", 1e7, 64) == 1e7 * 128 + 8 * 2**24


# --- scenarios ---------------------------------------------------------------------------------


def test_the_example_answers_with_series_and_a_row_for_each_command() -> None:
    answer = forecache.simulate(EXAMPLE).to_dict()
    (point,) = answer["points"]
    commands = point["tables"][0]
    assert [row[1] for row in commands["rows"]] == ["sinter", "sunion", "flushdb"]
    longest = next(f for f in point["facts"] if f["name"] == "longest latency of others")
    blocked = next(f for f in point["facts"] if f["name"] == "longest time other clients wait")
    # The first that waits comes a moment after the command has begun.
    assert longest["value"] >= 0.9999e3 * blocked["value"]
    assert json.dumps(answer)
    assert forecache.simulate(EXAMPLE).to_dict()["points"] == answer["points"], "the same seed"


def changed(**fields: object) -> dict[str, object]:
    return {**yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")), **fields}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"engine_version": "1.0"}, "engine_version"),
        ({"commands": [{"command": "keys", "overlap": 0.5}]}, "overlap"),
        ({"commands": [{"command": "get"}]}, "value_bytes"),
        ({"commands": [{"command": "sinter", "same_key": True, "overlap": 1}]}, "same_key"),
        ({"data": {"strings": {"keys": 10}}}, "data.sets"),
        ({"load": {"requests_per_s": 1e6}}, "requests_per_s"),
        ({"commands": [{"command": "smembers", "mode": "sync"}]}, "mode"),
    ],
)
def test_what_can_not_be_is_refused_by_name(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        forecache.simulate(changed(**fields))


def test_an_uncounted_version_gets_a_warning() -> None:
    answer = forecache.simulate(changed(engine_version="8.1", load=None))
    assert "counted" in " ".join(answer.points[0].run.warnings)


def test_a_version_newer_than_all_known_is_taken_as_the_newest() -> None:
    known = forecache.simulate(changed(engine="valkey", engine_version="9.1", load=None))
    newer = forecache.simulate(changed(engine="valkey", engine_version="9.7", load=None))
    for newest, same in zip(newer.points[0].run.facts, known.points[0].run.facts, strict=True):
        assert (newest.name, newest.value) == (same.name, same.value)
        # Nobody counted the work of that version.
        assert same.low is None or newest.low < same.low
    told = newer.points[0].run.warnings[0]
    assert "valkey 9.7 is newer" in told
    assert "taken as valkey 9.1" in told


@pytest.mark.parametrize(
    ("engine", "version", "message"),
    [
        ("memcached", "1.6", "field 'engine': found 'memcached'; valid is one of redis, valkey;"),
        ("redis", "3.6", "field 'engine_version': found '3.6'; valid for redis is one of 2.8, "),
    ],
)
def test_uncounted_versions_get_those_that_are_known_once_each(
    engine: str, version: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_work(engine, version)
    assert str(caught.value).startswith(message)
    listed = str(caught.value).partition("one of ")[2].partition(";")[0].split(", ")
    assert len(listed) == len(set(listed))


# --- intervals ---------------------------------------------------------------------------------


def facts_of(**fields: object) -> dict[str, Fact]:
    run = forecache.simulate(changed(**fields)).points[0].run
    return {fact.name: fact for fact in run.facts}


def test_times_have_intervals_and_what_is_known_has_none() -> None:
    facts = facts_of(load={"requests_per_s": 500})
    for name, fact in facts.items():
        if name == "largest reply buffer":
            assert fact.low is None
        else:
            assert 0.0 < fact.low < fact.value < fact.high < math.inf, name
    # Who comes at the beginning of the longest command waits for all of it.
    longest, felt = facts["longest time other clients wait"], facts["longest latency of others"]
    for end in ("low", "value", "high"):
        assert getattr(felt, end) == pytest.approx(1e3 * getattr(longest, end), rel=0.1)


def test_the_table_of_intervals_has_every_command() -> None:
    run = forecache.simulate(changed(load=None)).points[0].run
    commands, _, intervals = run.tables
    for command, interval in zip(commands.rows, intervals.rows, strict=True):
        _, name, _, lasts, main, *_ = command
        assert interval[0] == name
        assert interval[1] < lasts < interval[2]
        assert interval[3] < main < interval[4]


def test_numbers_that_are_off_by_nothing_are_the_nominal_ones() -> None:
    scenario = LargeCommands.model_validate(changed())
    place_, _ = data_place(scenario)
    nothing, _ = data_place(scenario, draw=Steps())
    for nominal, drawn in zip(timeline(scenario, place_), timeline(scenario, nothing), strict=True):
        assert drawn.end_s == pytest.approx(nominal.end_s)
        assert drawn.lasting.main_thread_ns == pytest.approx(nominal.lasting.main_thread_ns)
    assert base_latency_s(scenario, draw=Steps()) == pytest.approx(base_latency_s(scenario))


def test_without_draws_an_interval_is_the_error_of_the_engines_commands() -> None:
    scenario = LargeCommands.model_validate(changed())
    where, chosen = data_place(scenario)
    timed = timeline(scenario, where)
    own = chosen.work.errors.main_thread.half_width
    found = RunIntervals(timed, [timed] * 20, chosen).main_thread(main_thread_s)
    half = math.hypot(own, Z95 * UNCHECKED_DISCREPANCY)
    assert math.log(found.high / found.value) == pytest.approx(half)
    assert math.log(found.value / found.low) == pytest.approx(half)


def test_what_a_scenario_gives_is_not_uncertain() -> None:
    data = changed(load=None)
    given_too = {
        **data,
        "server": {"first_touch_ns": 700.0},
        "client": {"host": "c7g.large", "first_touch_ns": 700.0},
    }
    guess, known = (
        [data_place(scenario, draw=Draw(1, number))[0].server.first_touch_ns for number in range(5)]
        for scenario in map(LargeCommands.model_validate, (data, given_too))
    )
    assert len(set(guess)) == 5
    assert known == [700.0] * 5


def test_a_version_that_was_not_counted_has_a_wider_interval() -> None:
    counted = facts_of(engine="redis", engine_version="7.0", load=None)["main-thread time"]
    other = facts_of(engine="redis", engine_version="7.2", load=None)["main-thread time"]
    assert other.value == pytest.approx(counted.value)
    assert other.low < counted.low
    assert other.high > counted.high


def test_where_all_take_longer_the_client_waits_longer() -> None:
    lasting = set_command(place(), "sunion", two_sets(100_000))
    slower = lasting.slower(3.0)
    assert slower.round_trip_ns == lasting.round_trip_ns
    rest = lasting.lasts_ns - lasting.round_trip_ns
    assert slower.lasts_ns == pytest.approx(lasting.round_trip_ns + 3.0 * rest)
    assert slower.main_thread_ns == pytest.approx(3.0 * lasting.main_thread_ns)
    assert slower.binds == lasting.binds
