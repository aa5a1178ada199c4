"""Reading what the kernel says, from made-up /proc and /sys trees."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles.capture.machine import (
    CacheFacts,
    Machine,
    busy_cpu_seconds,
    inspect_machine,
    pair_among,
    parse_cpu_list,
)
from forecache.sim.errors import InputError

MEMINFO = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def look(root: Path, files: dict[str, str], cpus: list[int], isa: str = "x86_64") -> Machine:
    write(root, {"proc/meminfo": MEMINFO, **files})
    return inspect_machine(root=root, cpus=cpus, isa=isa)


def topology(cpu: int, socket: int, siblings: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
    return {
        f"{folder}/physical_package_id": f"{socket}\n",
        f"{folder}/thread_siblings_list": f"{siblings}\n",
    }


def cache(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    return {
        f"{folder}/level": f"{level}\n",
        f"{folder}/type": f"{kind}\n",
        f"{folder}/size": f"{size}\n",
        f"{folder}/shared_cpu_list": f"{shared}\n",
        f"{folder}/coherency_line_size": "64\n",
    }


def test_a_bare_tree_still_gives_a_machine(tmp_path: Path) -> None:
    machine = look(tmp_path, {}, [0, 1])
    assert machine.usable_cpus == 2
    assert machine.pair == (0, 1)
    assert (machine.threads_per_core, machine.sockets, machine.caches) == (1, 1, {})
    assert machine.cpu_model == "unknown CPU"
    assert (machine.memory_bytes, machine.available_bytes) == (16384 * 1024, 8192 * 1024)


def test_the_pair_avoids_siblings_and_other_sockets(tmp_path: Path) -> None:
    files = (
        topology(0, 0, "0,2") | topology(2, 0, "0,2") | topology(4, 1, "4") | topology(6, 0, "6")
    )
    machine = look(tmp_path, files, [0, 2, 4, 6])
    assert machine.pair == (0, 6)
    assert (machine.threads_per_core, machine.sockets) == (2, 2)
    alone = look(tmp_path, files, [0, 2])
    assert alone.pair is None
    assert pair_among({6, 2, 0, 4}, root=tmp_path) == (0, 6)


def test_caches_leave_out_instructions_and_nonsense(tmp_path: Path) -> None:
    files = (
        cache(3, 0, 1, "Data", "48K", "3")
        | cache(3, 1, 1, "Instruction", "32K", "3")
        | cache(3, 2, 2, "Unified", "2M", "3")
        | cache(3, 3, 3, "Unified", "unknown", "0-7")
        | cache(3, 4, 4, "Unified", "0K", "0-7")
    )
    machine = look(tmp_path, files, [3])
    assert machine.caches == {
        1: CacheFacts(48 * 1024, 64, 1),
        2: CacheFacts(2 * 1024**2, 64, 1),
    }


@pytest.mark.parametrize(
    ("files", "usable", "quota"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 1, 1.5),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 4, None),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/cpu.max": "300000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "200000 100000\n",
            },
            2,
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/y\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            1,
            0.5,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            4,
            None,
        ),
    ],
)
def test_cgroup_limits_of_cpu_time(
    tmp_path: Path, files: dict[str, str], usable: int, quota: float | None
) -> None:
    machine = look(tmp_path, files, [0, 1, 2, 3])
    assert (machine.usable_cpus, machine.quota_cpus) == (usable, quota)


def test_cgroup_limits_of_memory(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/a\n",
        "sys/fs/cgroup/a/memory.max": "4194304\n",
        "sys/fs/cgroup/a/memory.current": "1048576\n",
    }
    machine = look(tmp_path, files, [0])
    assert (machine.memory_bytes, machine.available_bytes) == (4194304, 3145728)


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 9R14\n", "AMD EPYC 9R14"),
        ("processor\t: 0\nCPU part\t: 0xd40\n", "Neoverse V1"),
        ("processor\t: 0\nCPU part\t: 0xfff\n", "Arm part 0xfff"),
    ],
)
def test_names_of_cpus(tmp_path: Path, cpuinfo: str, model: str) -> None:
    machine = look(tmp_path, {"proc/cpuinfo": cpuinfo}, [0], isa="aarch64")
    assert (machine.cpu_model, machine.isa) == (model, "aarch64")


def test_other_machines_are_refused() -> None:
    with pytest.raises(InputError, match="x86-64 or aarch64"):
        inspect_machine(isa="s390x")


@given(st.sets(st.integers(0, 300), max_size=20))
def test_cpu_lists_read_back(cpus: set[int]) -> None:
    assert parse_cpu_list(",".join(str(cpu) for cpu in sorted(cpus))) == sorted(cpus)
    assert parse_cpu_list("0-2,8") == [0, 1, 2, 8]


@given(st.text(max_size=20))
def test_any_text_is_a_cpu_list(text: str) -> None:
    assert all(cpu >= 0 for cpu in parse_cpu_list(text))


def test_busy_and_stolen_time_of_some_cpus(tmp_path: Path) -> None:
    lines = "cpu  9 9 9 9 9 9 9 9\ncpu0 100 0 50 900 7 30 20 40 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\n"
    write(tmp_path, {"proc/stat": lines})
    busy, stolen = busy_cpu_seconds([0], root=tmp_path)
    assert (busy, stolen) == pytest.approx((2.0, 0.4))
