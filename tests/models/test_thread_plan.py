"""Thread plans: lists that respect physical cores, lines that engines know, gains in pairs."""

import configparser
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.models.advice.answers import load_cases
from forecache.models.advice.configuration import can_be_placed, conf_lines, files_of, process_cpus
from forecache.models.advice.placement import CpuNumbers, Placement, cpu_list, place
from forecache.models.advice.thread_plan import (
    PlanGain,
    Variants,
    choose_placement,
    plan_gain,
    planned_scenario,
    thread_plan,
    unplaced_scenario,
)
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.predict import predict_cases
from forecache.models.scenario.schema import Scenario
from forecache.models.step_times.cores import Sharing, shared_physical_cores
from forecache.sim.words import NO_CLEAR_DIFFERENCE
from tests.live_engine import not_live

MACHINES = st.builds(
    lambda cores, each, numbers: CpuNumbers(
        cpus=cores * each, threads_per_core=each, sibling_cpus=numbers
    ),
    st.integers(1, 32),
    st.integers(1, 2),
    st.sampled_from(["halves", "pairs"]),
)


@st.composite
def placements(draw: st.DrawFn) -> tuple[CpuNumbers, int, int, int, Placement]:
    machine = draw(MACHINES)
    server = draw(st.integers(1, machine.cpus + 2))
    interrupts = draw(st.integers(0, machine.cpus))
    busy = draw(st.integers(0, 40))
    found = place(machine, server=server, interrupts=interrupts, busy_neighbours=busy)
    return machine, server, interrupts, busy, found


def parse(text: str) -> list[int]:
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


@given(placements())
def test_lists_are_of_the_hosts_cpus_and_no_other_has_one_of_the_servers(
    case: tuple[CpuNumbers, int, int, int, Placement],
) -> None:
    machine, server, interrupts, _, found = case
    others = set(found.interrupts) | set(found.background) | set(found.neighbours)
    assert not set(found.server) & others
    assert not set(found.idle) & (others | set(found.server))
    assert set(found.server) | others | set(found.idle) == set(range(machine.cpus))
    assert len(found.server) >= min(server, machine.cpus)
    assert len(found.interrupts) <= interrupts
    rest = set(found.background) | set(found.neighbours)
    assert not set(found.interrupts) & rest or rest == set(found.interrupts)
    assert found.background == found.neighbours or not set(found.background) & set(found.neighbours)
    assert found.separates == (server < machine.cpus)


@given(placements())
def test_no_sibling_of_the_servers_is_anothers_while_whole_cores_are_free(
    case: tuple[CpuNumbers, int, int, int, Placement],
) -> None:
    machine, server, interrupts, busy, found = case
    others = set(found.interrupts) | set(found.background) | set(found.neighbours)
    shared = [
        core for core in machine.cores if set(core) & set(found.server) and set(core) & others
    ]
    assert found.whole_cores == (not shared)
    beside = max(1, min(interrupts, max(0, machine.cpus - server)))
    if (len(machine.cores) - server) * machine.threads_per_core >= beside:
        assert found.whole_cores
        # Each thread has a core: no two CPUs of the list are siblings.
        assert found.server_cores == len(found.server) == server
    if busy and machine.threads_per_core == 2 and server <= 2 * (len(machine.cores) - 1):
        assert found.whole_cores or interrupts > 0
    assert found.server_cores == sum(1 for c in machine.cores if set(c) & set(found.server))


@given(st.sets(st.integers(0, 200), min_size=1))
def test_a_list_of_cpus_is_read_back(cpus: set[int]) -> None:
    assert parse(cpu_list(sorted(cpus))) == sorted(cpus)


def test_siblings_are_numbered_as_said() -> None:
    halves = CpuNumbers(cpus=8, threads_per_core=2)
    pairs = CpuNumbers(cpus=8, threads_per_core=2, sibling_cpus="pairs")
    assert halves.cores == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert pairs.cores == [(0, 1), (2, 3), (4, 5), (6, 7)]
    found = place(pairs, server=2, interrupts=1, busy_neighbours=0)
    assert found.server == (2, 4)
    assert found.idle == (3, 5)
    assert found.interrupts == (0,)
    assert (found.background, found.neighbours) == ((1,), (6, 7))


def given_scenario(**changes: Any) -> Scenario:
    fields = {
        "host": "m7i.2xlarge",
        "engine": "valkey",
        "engine_version": "8.1",
        "workload": {"clients": 50, "keys": 10_000, "value_bytes": 64},
    }
    return Scenario.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("engine", "names"),
    [
        ("redis-6.0", ["server_cpulist", "bio_cpulist", "aof_rewrite_cpulist", "bgsave_cpulist"]),
        ("redis-7.4", ["server_cpulist", "bio_cpulist", "aof_rewrite_cpulist", "bgsave_cpulist"]),
        ("valkey-7.2", ["server_cpulist", "bio_cpulist", "aof_rewrite_cpulist", "bgsave_cpulist"]),
        ("redis-8.0", ["server-cpulist", "bio-cpulist", "aof-rewrite-cpulist", "bgsave-cpulist"]),
        ("valkey-8.0", ["server-cpulist", "bio-cpulist", "aof-rewrite-cpulist", "bgsave-cpulist"]),
        ("memcached-1.6", []),
    ],
)
def test_engines_get_only_directives_they_know(engine: str, names: list[str]) -> None:
    machine = CpuNumbers(cpus=8, threads_per_core=2)
    found = place(machine, server=2, interrupts=0, busy_neighbours=0)
    lines = conf_lines(load_engine(engine), found)
    assert [line.split()[0] for line in lines] == names
    assert all(set(parse(line.split()[1])) < set(range(8)) for line in lines)


def test_an_engine_before_lists_gets_the_cpus_of_all_its_threads_and_children() -> None:
    old = load_engine("redis-6.0").model_copy(update={"version": "5.0"})
    found = place(CpuNumbers(cpus=4), server=1, interrupts=0, busy_neighbours=0)
    assert conf_lines(old, found) == []
    assert process_cpus(old, found) == tuple(sorted({*found.server, *found.background}))
    memcached = load_engine("memcached-1.6")
    assert process_cpus(memcached, found) == found.server


def test_what_a_service_runs_has_no_plan() -> None:
    assert not can_be_placed(load_engine("elasticache-redis-7.1"))
    assert can_be_placed(load_engine("memcached-1.6"))


@pytest.mark.parametrize("engine", ["valkey-9.1", "redis-6.2", "memcached-1.6"])
def test_emitted_files_parse(engine: str, tmp_path: Path) -> None:
    profile, machine = load_engine(engine), CpuNumbers(cpus=16, threads_per_core=2)
    asked = given_scenario(io_threads=4, main_thread_pinned=True)
    found = place(machine, server=4, interrupts=2, busy_neighbours=0)
    files = files_of(asked, profile, machine, found)
    units = [name for name in files if name.startswith("systemd/")]
    assert len(units) == 4
    for name in units:
        unit = configparser.ConfigParser(delimiters="=")
        unit.optionxform = str  # type: ignore[assignment, method-assign]
        unit.read_string(files[name])
        [section] = unit.sections()
        allowed = {cpu for part in unit[section]["AllowedCPUs"].split() for cpu in parse(part)}
        if ".service" in name:
            assert unit[section]["Slice"].endswith(".slice")
            assert allowed >= set(found.server)
        else:
            assert not allowed & set(found.server)
    scripts = {name for name in files if name.endswith(".sh")}
    pinned = {"pin-main-thread.sh"} if engine != "memcached-1.6" else set()
    assert scripts == {"start.sh", "check-cpus.sh", "irq-affinity.sh"} | pinned
    for name in scripts:
        path = tmp_path / name
        path.write_text(files[name])
        subprocess.run(["sh", "-n", str(path)], check=True)
    assert 'cpus="0 8"' in files["irq-affinity.sh"]
    assert "rps_cpus" in files["irq-affinity.sh"]


def test_the_check_of_cpus_tells_other_numbers(tmp_path: Path) -> None:
    """This host's own numbers pass, and those of a host with other siblings don't."""
    folder = Path("/sys/devices/system/cpu/cpu0/topology")
    if not (folder / "thread_siblings_list").exists():
        pytest.skip("sysfs has no topology")
    siblings = parse((folder / "thread_siblings_list").read_text().strip())
    cpus = os.cpu_count() or 1
    if len(siblings) > 2 or cpus % len(siblings):
        pytest.skip("no host of the plan's kind")
    numbers = "pairs" if siblings == [0, 1] and cpus > 2 else "halves"
    own = CpuNumbers(cpus=cpus, threads_per_core=len(siblings), sibling_cpus=numbers)  # type: ignore[arg-type]
    other = CpuNumbers(cpus=2 * cpus + 2, threads_per_core=2)
    codes = []
    for machine in (own, other):
        found = place(machine, server=1, interrupts=0, busy_neighbours=0)
        text = files_of(given_scenario(), load_engine("valkey-8.1"), machine, found)
        if "check-cpus.sh" not in text:
            pytest.skip("one CPU")
        path = tmp_path / "check.sh"
        path.write_text(text["check-cpus.sh"])
        codes.append(subprocess.run(["sh", str(path)], check=False, capture_output=True).returncode)
    assert codes == [0, 1]


def test_physical_cores_of_its_own_meet_neither_interrupts_nor_generators() -> None:
    shared = given_scenario(io_threads=3, irq_cores=2)
    own = given_scenario(io_threads=3, irq_cores=2, cores=3, physical_cores=3)
    few = given_scenario(io_threads=3, cores=4, physical_cores=2)
    assert shared_physical_cores(shared, Sharing(6), 8, 2) == 4
    assert shared_physical_cores(own, Sharing(3), 8, 2) == 0
    assert shared_physical_cores(few, Sharing(4), 8, 2) == 2


FEW: dict[str, Any] = {"draws": 2, "replications": 2, "requests": 2000}


def planned(source: dict[str, Any], **runs: int) -> tuple[Placement, PlanGain | None]:
    fields = {
        "host": "m7i.2xlarge",
        "engine": "valkey",
        "engine_version": "8.1",
        "workload": {"clients": 50, "keys": 10_000, "value_bytes": 64},
    }
    [(case, system)] = load_cases({**fields, **source})
    [chosen] = predict_cases([(case, system)], **(FEW | runs))
    variants = Variants(chosen, seed=1)
    placement = choose_placement(variants)
    return placement, plan_gain(placement, variants)


def test_neighbours_kept_off_are_a_gain() -> None:
    placement, gain = planned(
        {
            "host": "m7i.4xlarge",
            "io_threads": 6,
            "other_busy_threads": 14,
            "irq_cores": 1,
            "workload": {"clients": 400, "keys": 10_000, "value_bytes": 64},
        },
        # In runs as short as the others here an interval says nothing.
        draws=8,
        replications=4,
        requests=20_000,
    )
    assert placement.whole_cores
    assert placement.interrupts == (0,)
    assert gain is not None
    assert gain.verdict == "gains"
    [told] = [each for each in gain.differences if each.quantity == "throughput_rps"]
    assert told.ratio is not None
    assert 1.2 < told.ratio.low < told.ratio.value < told.ratio.high


@pytest.mark.usefixtures("short_runs")
def test_with_cores_to_spare_nothing_differs_and_nothing_is_simulated_twice() -> None:
    _, gain = planned({"host": "c7g.2xlarge", "io_threads": 1, "workload": {"clients": 1}})
    assert gain is not None
    assert gain.verdict == NO_CLEAR_DIFFERENCE
    for ratio in (each.ratio for each in gain.differences):
        assert ratio is not None
        assert ratio.low == ratio.value == ratio.high == 1.0


def test_nothing_is_gained_where_nothing_is_kept_apart() -> None:
    _, gain = planned({"host": "c7g.large", "io_threads": 2})
    assert gain is None


def test_busy_neighbours_on_siblings_are_not_modelled_unless_all_are_busy() -> None:
    [(case, system)] = load_cases(
        {"host": "m7i.large", "engine": "valkey", "other_busy_threads": 1}
    )
    machine = CpuNumbers(cpus=2, threads_per_core=2)
    found = place(machine, server=1, interrupts=0, busy_neighbours=1)
    assert not found.whole_cores
    always = planned_scenario(case.scenario, found)
    assert always is not None
    assert always.idle_polls
    wide = place(CpuNumbers(cpus=8, threads_per_core=2), server=7, interrupts=0, busy_neighbours=1)
    many = case.scenario.model_copy(update={"io_threads": 7})
    assert planned_scenario(many, wide) is None
    left = unplaced_scenario(always)
    assert (left.irq_cores, left.physical_cores) == (0, None)
    assert system.host.id


def test_no_plan_for_a_service() -> None:
    [(case, system)] = load_cases(
        {"host": "r7g.large", "engine": "elasticache-redis", "workload": {"clients": 10}}
    )
    [chosen] = predict_cases([(case, system)], draws=2, replications=2, requests=500)
    made = thread_plan(chosen, seed=1, executor=None, progress=None)  # type: ignore[arg-type]
    assert made is None


def test_a_server_that_needs_every_cpu_is_told_so() -> None:
    found = place(CpuNumbers(cpus=2), server=2, interrupts=1, busy_neighbours=3)
    assert found == Placement(
        server=(0, 1),
        interrupts=(),
        background=(),
        neighbours=(),
        idle=(),
        server_cores=2,
        whole_cores=True,
    )
    engine = load_engine("valkey-8.1")
    files = files_of(given_scenario(io_threads=2), engine, CpuNumbers(cpus=2), found)
    assert files == {"valkey.conf": "io-threads 2\n"}


def cpus_of(task: Path) -> list[int]:
    fields = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines())
    return parse(fields["Cpus_allowed_list"])


def ask(path: Path, *commands: str) -> None:
    """Send commands over a Unix socket, waiting for a reply to each."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        for command in commands:
            client.sendall(f"{command}\r\n".encode())
            assert not client.recv(100).startswith(b"-"), command


@pytest.mark.parametrize("lists", ["all", "the server's alone"])
def test_a_live_server_runs_where_the_lines_say(binary: Path, tmp_path: Path, lists: str) -> None:
    """Threads have their CPUs; a child without a list of its own inherits the main thread's."""
    if set(os.sched_getaffinity(0)) < {0, 1}:
        not_live("needs CPUs 0 and 1")
    found = place(CpuNumbers(cpus=2), server=1, interrupts=0, busy_neighbours=0)
    lines = conf_lines(load_engine("valkey-8.1"), found)
    if lists != "all":
        lines = lines[:1]
    listening, config = tmp_path / "s", tmp_path / "valkey.conf"
    own = ["io-threads 2", "port 0", f"unixsocket {listening}", f"dir {tmp_path}", 'save ""']
    config.write_text("\n".join([*lines, *own, "rdb-key-save-delay 1000000"]) + "\n")
    with subprocess.Popen([binary, config], stdout=subprocess.DEVNULL) as process:
        try:
            until(listening.exists)
            ask(listening, "SET a 1", "SET b 2", "SET c 3", "BGSAVE")
            main = Path(f"/proc/{process.pid}/task/{process.pid}")
            until(lambda: bool((main / "children").read_text()))
            child = Path("/proc", (main / "children").read_text().split()[0])
            saving = list(found.background if lists == "all" else found.server)
            until(lambda: cpus_of(child) == saving)
            assert cpus_of(main) == list(found.server)
            for task in main.parent.iterdir():
                name = (task / "comm").read_text()
                if name.startswith("io_thd"):
                    assert cpus_of(task) == list(found.server)
                elif name.startswith("bio_") and lists == "all":
                    assert cpus_of(task) == list(found.background)
        finally:
            process.kill()


def until(holds: Callable[[], bool]) -> None:
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen within ten seconds")
