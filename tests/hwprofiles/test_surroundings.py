"""Hypervisor, frequency, clock and perf's limit, from made-up /proc and /sys trees."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.hwprofiles.capture.machine import inspect_surroundings, measure_noise

DMI = "sys/class/dmi/id"
CPU = "sys/devices/system/cpu"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("files", "is_virtual", "name"),
    [
        ({}, None, None),
        ({"proc/cpuinfo": "flags\t\t: fpu hypervisor sse\n"}, True, None),
        ({"proc/cpuinfo": "flags\t\t: fpu sse\n"}, False, None),
        (
            {
                "proc/cpuinfo": "flags : hypervisor\n",
                f"{DMI}/sys_vendor": "Microsoft Corporation\n",
            },
            True,
            "Hyper-V",
        ),
        ({"proc/cpuinfo": "flags : hypervisor\n", "sys/hypervisor/type": "xen\n"}, True, "Xen"),
        (
            {f"{DMI}/sys_vendor": "Amazon EC2\n", f"{DMI}/product_name": "c7g.large\n"},
            True,
            "Amazon EC2",
        ),
        ({f"{DMI}/sys_vendor": "Amazon EC2\n", f"{DMI}/product_name": "c7g.metal\n"}, False, None),
        ({"proc/device-tree/hypervisor/compatible": "linux,kvm\0"}, True, "linux,kvm"),
    ],
)
def test_hypervisors(
    tmp_path: Path, files: dict[str, str], is_virtual: bool | None, name: str | None
) -> None:
    found = inspect_surroundings(root=write(tmp_path, files))
    assert (found.is_virtual, found.hypervisor) == (is_virtual, name)


def test_frequency_clock_and_perf(tmp_path: Path) -> None:
    clock = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    files = {
        f"{CPU}/cpu3/cpufreq/scaling_governor": "schedutil\n",
        f"{CPU}/intel_pstate/no_turbo": "1\n",
        f"{CPU}/cpufreq/boost": "1\n",
        clock: "hpet\n",
        "proc/sys/kernel/perf_event_paranoid": "-1\n",
    }
    found = inspect_surroundings(root=write(tmp_path, files), cpu=3)
    assert (found.governor, found.turbo) == ("schedutil", False)
    assert (found.clock_source, found.perf_event_paranoid) == ("hpet", -1)
    assert inspect_surroundings(root=tmp_path, cpu=0).governor is None


def test_boost_where_intels_switch_is_not(tmp_path: Path) -> None:
    assert inspect_surroundings(root=write(tmp_path, {f"{CPU}/cpufreq/boost": "1\n"})).turbo is True


@given(st.text(max_size=20))
def test_what_is_no_number_is_not_known(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = {"proc/sys/kernel/perf_event_paranoid": text, f"{CPU}/cpufreq/boost": text}
        found = inspect_surroundings(root=write(Path(folder), files))
    is_number = text.strip().lstrip("-").isdecimal()
    assert is_number or found.perf_event_paranoid is None
    assert found.turbo is None or text.strip() in ("0", "1")


def test_noise_of_this_machine() -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    before = os.sched_getaffinity(0)
    found = measure_noise(cpus, duration_s=0.2)
    assert found.cpus == tuple(cpus)
    # Somebody else may hold the CPUs while the threads end.
    assert 0.2 <= found.duration_s < 5.0
    assert 0.0 <= found.stolen_fraction <= 1.0
    assert found.waiting_fraction is None or 0.0 <= found.waiting_fraction <= 1.05
    assert found.loop_p99_over_median >= 1.0
    assert found.loop_slowest_ms > 0.0
    assert os.sched_getaffinity(0) == before


def test_two_threads_on_one_cpu_wait_for_half_of_the_time() -> None:
    cpu = min(os.sched_getaffinity(0))
    found = measure_noise([cpu, cpu], duration_s=0.4)
    assert found.waiting_fraction is None or found.waiting_fraction > 0.3
