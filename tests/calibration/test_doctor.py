"""What a machine allows: made-up machines and programs, and this one."""

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from forecache.calibration.doctor import diagnose as doctor
from forecache.calibration.doctor import diagnose as module
from forecache.calibration.doctor.diagnose import (
    Ability,
    Diagnosis,
    diagnose,
    extras,
    simulation_speed,
    version_in,
)
from forecache.hwprofiles.capture.machine import MachineNoise
from forecache.reports.builders.machine import diagnosis, diagnosis_in_lines
from forecache.reports.terminal import print_document
from forecache.sim.installing import install_command
from forecache.sim.plain import plain

QUIET: dict[str, Any] = {
    "cpus": (0, 1),
    "duration_s": 2.0,
    "stolen_fraction": 0.0,
    "waiting_fraction": 0.001,
    "loop_p99_over_median": 1.02,
    "loop_slowest_ms": 0.7,
}

Programs = Callable[[dict[str, str]], None]


def machine(root: Path, files: dict[str, str]) -> Path:
    """A folder with `proc` and `sys`."""
    usual = {"proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n"}
    for name, text in (usual | files).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Make PATH a folder that holds only these programs; each is a shell script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("ENGINES", raising=False)
    (folder / "true").symlink_to("/bin/true")

    def write(scripts: dict[str, str]) -> None:
        for name, body in scripts.items():
            path = folder / name
            path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            path.chmod(0o755)

    return write


def look(root: Path) -> Diagnosis:
    return diagnose(root=root, measure=False)


def test_a_bare_machine_says_how_to_get_everything(tmp_path: Path, programs: Programs) -> None:
    programs({})
    found = look(machine(tmp_path / "root", {}))
    for name in ("perf", "hardware_counters", "cpu_clock_sampling", "vtune", "callgrind"):
        ability = found.ability(name)
        assert (ability.status, "not on PATH" in ability.found) == ("no", True)
        assert ability.get
    assert found.ability("servers").status == "no"
    assert found.ability("servers").found == "none of valkey-server, redis-server, memcached"
    assert found.ability("benchmark_tools").status == "no"
    assert found.ability("browser").status == "no"
    for name in ("hypervisor", "frequency", "clock_source"):
        assert found.ability(name).status == "unknown"
    assert found.ability("cpu_quota").status == "yes"
    assert {each.id for each in found.abilities if each.get} >= {"perf", "servers", "vtune"}
    assert len({each.id for each in found.abilities}) == len(found.abilities)
    with pytest.raises(KeyError):
        found.ability("teapot")


def test_programs_and_their_versions(
    tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    perf = """case "$1" in
    --version) echo perf version 6.8.12 ;;
    stat) echo '123;;cycles;1000;100.00;;' >&2 ;;
    esac"""
    programs(
        {
            "perf": perf,
            "valgrind": "exit 0",
            "vgdb": "exit 0",
            "vtune": "echo Intel VTune 2025.0; exit 0",
            "redis-server": "echo Redis server v=7.2.4 sha=0 malloc=jemalloc",
            "memcached": "exit 1",
            "memtier_benchmark": "echo memtier_benchmark 2.1.4",
            "valkey-benchmark": "echo nothing to see",
            "chromium": "echo Chromium 120.0.6099.224",
        }
    )
    engine = tmp_path / "engines" / "valkey-9.0.1" / "valkey-server"
    engine.parent.mkdir(parents=True)
    engine.write_text("#!/bin/sh\necho Valkey server v=9.0.1 sha=0\n", encoding="utf-8")
    engine.chmod(0o755)
    monkeypatch.setenv("ENGINES", str(tmp_path / "engines"))
    found = look(machine(tmp_path / "root", {"proc/sys/kernel/perf_event_paranoid": "1\n"}))
    assert found.ability("perf").found == "6.8.12, paranoid 1"
    for name in ("hardware_counters", "cpu_clock_sampling", "vtune", "callgrind"):
        assert (found.ability(name).status, found.ability(name).get) == ("yes", "")
    servers = found.ability("servers")
    assert servers.status == "yes"
    assert servers.values["versions"] == {
        "redis-server": "7.2.4",
        "memcached": None,
        str(engine): "9.0.1",
    }
    assert "valkey-server 9.0.1" in servers.found
    tools = found.ability("benchmark_tools").values["versions"]
    assert tools == {"valkey-benchmark": None, "memtier_benchmark": "2.1.4"}
    assert found.ability("browser").values["version"] == "120.0.6099.224"


def test_perf_without_counters(
    tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_counters = """case "$1" in
    --version) echo perf version 6.1 ;;
    stat) echo '<not supported>;;cycles;0;100.00;;' >&2 ;;
    record) echo 'Access to performance monitoring is limited.' >&2; exit 255 ;;
    esac"""
    programs({"perf": no_counters})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    root = machine(tmp_path / "root", {"proc/sys/kernel/perf_event_paranoid": "3\n"})
    found = look(root)
    assert found.ability("hardware_counters").found == "cycles are <not supported>"
    assert "perf_event_paranoid" in found.ability("hardware_counters").get
    assert found.ability("cpu_clock_sampling").status == "no"
    assert "limited" in found.ability("cpu_clock_sampling").values["refusal"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    # Root has no such limit: what lacks are the counters.
    assert "hypervisor" in look(root).ability("hardware_counters").get


def test_limits_of_a_container(tmp_path: Path, programs: Programs) -> None:
    programs({})
    files = {
        "proc/self/cgroup": "0::/box\n",
        "sys/fs/cgroup/box/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/box/memory.max": str(2**30),
        "sys/fs/cgroup/box/memory.current": str(2**29),
        "proc/cpuinfo": "flags : hypervisor\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    }
    found = look(machine(tmp_path / "root", files))
    assert found.ability("cpu_quota").found == "1.5 CPUs by cgroup"
    assert found.ability("memory").found == "512 MiB of 1 GiB free"
    for name in ("cpu_quota", "memory", "hypervisor", "clock_source"):
        assert found.ability(name).status == "limited"
        assert found.ability(name).get


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "yes"),
        ({"waiting_fraction": None}, "yes"),
        ({"stolen_fraction": 0.02}, "limited"),
        ({"waiting_fraction": 0.3}, "limited"),
        ({"loop_p99_over_median": 1.5}, "limited"),
    ],
)
def test_noise_is_judged_by_each_of_its_numbers(changes: dict[str, Any], status: str) -> None:
    ability = module._noise(MachineNoise(**QUIET | changes))
    assert (ability.status, bool(ability.get)) == (status, status != "yes")


def test_a_system_that_is_not_supported(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs({})
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    found = look(Path("/"))
    assert (found.ability("python").status, found.ability("python").get != "") == ("limited", True)
    assert "cores" not in {each.id for each in found.abilities}


def test_no_compiled_code_and_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> list[str]:
        raise OSError("no C compiler")

    monkeypatch.setattr(module, "is_current", lambda _: False)
    monkeypatch.setattr(module, "compiler", none)
    ability = module.compiled_ability()
    assert (ability.status, ability.values["refusal"]) == ("no", "no C compiler")
    assert "gcc" in ability.get


def test_extras_are_those_of_the_distribution() -> None:
    requirements = [
        "numpy>=1.26",
        'pyarrow>=15; extra == "parquet"',
        "zstandard>=0.22; extra == 'compression'",
        "lz4>=4.3; extra == 'compression'",
        'ruff>=0.5; extra == "dev"',
    ]
    assert extras(requirements) == {"parquet": ("pyarrow",), "compression": ("zstandard", "lz4")}


def test_an_extra_that_lacks_a_package_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = ['numpy; extra == "here"', 'numpy; extra == "gone"', 'teapot; extra == "gone"']
    monkeypatch.setattr("importlib.metadata.requires", lambda _: requirements)
    ability = module.extras_ability()
    assert (ability.status, ability.found) == ("limited", "here")
    assert ability.get == install_command("gone")
    assert ability.values["packages"]["gone"]["teapot"] is None


def test_without_a_place_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cache_folder", lambda _: None)
    assert module.cache_ability().status == "no"


def test_the_size_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "forecache" / "nodes").mkdir(parents=True)
    (tmp_path / "forecache" / "nodes" / "a").write_bytes(bytes(2**20))
    ability = module.cache_ability()
    assert ability.values == {"path": tmp_path / "forecache", "size_bytes": 2**20, "files": 1}
    assert ability.found.startswith("1 MiB in 1 file")


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("perf version 6.1.187", "6.1.187"),
        ("redis-benchmark 7.0.15", "7.0.15"),
        ("memtier_benchmark 2.1.4\nCopyright (C) 2011-2024", "2.1.4"),
        ("no version", None),
        ("version 7", None),
    ],
)
def test_versions_in_words(words: str, version: str | None) -> None:
    assert version_in(words) == version


def test_speed_is_of_requests_that_were_simulated() -> None:
    # SimPy does some ten thousand a second.
    assert simulation_speed(duration_s=0.1) > 50_000


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "measure_noise", lambda _: MachineNoise(**QUIET))
    steps: list[str] = []
    found = diagnose(progress=steps.append)
    assert len(steps) >= 3
    assert found.ability("compiled_code").status == "yes"
    assert found.ability("compiled_code").values["simulated_requests_per_s"] > 50_000
    assert found.ability("cores").values["cpus"] == sorted(os.sched_getaffinity(0))
    assert found.ability("noise").status == "yes"
    has_valgrind = shutil.which("valgrind") and shutil.which("vgdb")
    assert found.ability("callgrind").status == ("yes" if has_valgrind else "no")
    for ability in found.abilities:
        assert ability.found
        assert ability.helps
        assert ability.get or ability.status in ("yes", "unknown")
        assert not ability.get or ability.status != "yes"
    again = json.loads(json.dumps(plain(found)))
    assert [each["id"] for each in again["abilities"]] == [each.id for each in found.abilities]


def printed(found: Diagnosis, width: int, *, whole: bool = True) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    print_document((diagnosis if whole else diagnosis_in_lines)(found), console)
    return console.export_text().splitlines()


def test_one_screen_even_where_nothing_is_there(tmp_path: Path, programs: Programs) -> None:
    programs({})
    files = {
        "proc/self/cgroup": "0::/box\n",
        "sys/fs/cgroup/box/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/box/memory.max": str(2**30),
        "proc/cpuinfo": "flags : hypervisor\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    }
    found = look(machine(tmp_path / "root", files))
    short = printed(found, 80, whole=False)
    # A terminal of 24 lines has room for them and a prompt.
    assert len(short) <= 23
    assert max(map(len, short)) <= 80
    assert all(ability.title in "\n".join(short) for ability in found.abilities)
    assert all(a.helps in "\n".join(short) for a in found.abilities if not a.get)
    assert "\n".join(short).count("→") == 1 + sum(bool(a.get) for a in found.abilities)
    # Nothing is cut: what an arrow leads to is at least the beginning of its sentence.
    assert not [line for line in short if line.endswith("…")]
    lines = printed(found, 80)
    assert len(lines) > len(short)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    for ability in found.abilities:
        assert ability.title in text
        assert all(word in text for word in ability.helps.split())
        assert all(word in text for word in ability.get.split())


def test_what_lacks_nothing_is_not_asked_for() -> None:
    ability = Ability(id="x", title="thing", status="yes", found="here", helps="every verb")
    text = "\n".join(printed(Diagnosis(version="1", abilities=(ability,), took_s=1.0), 80))
    assert "✓ thing" in text
    assert "What would help" not in text


def test_missing_programs_are_named_as_the_tools_of_observe() -> None:
    from forecache.calibration.observe.tools import TOOLS

    assert module.TOOLS is TOOLS
