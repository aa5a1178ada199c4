"""What stands between this process and the processor: hypervisor, frequency, clock, perf's limits.

What a kernel doesn't say is None: containers and virtual machines hide much of it.
"""

import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from forecache.sim.plain import Result

from .cores import dependent_operations_ns
from .machine import busy_cpu_seconds

_HYPERVISORS = {
    "KVM": ("kvm",),
    "Xen": ("xen",),
    "Hyper-V": ("microsoft", "hyper-v"),
    "VMware": ("vmware",),
    "Amazon EC2": ("amazon ec2",),
    "Google Compute Engine": ("google compute engine",),
}
_BARE_METAL = ("metal",)
"""What the product is called where nothing lies between: `c7g.metal`."""


@dataclass(frozen=True, kw_only=True)
class Surroundings(Result):
    """What the kernel says about its own surroundings.

    Attributes
    ----------
    is_virtual
        Whether a hypervisor runs this machine; None where nothing says.
    hypervisor
        Its name where the firmware or the kernel tells.
    governor
        Policy of the clock's frequency of the first usable CPU (`performance`, `schedutil`).
    turbo
        Whether the clock may rise above its nominal frequency.
    clock_source
        What the kernel reads the time from (`tsc`, `arch_sys_counter`).
    perf_event_paranoid
        The kernel's limit on perf for users without privileges: -1 allows all, above 1 no sampling
        of the kernel, above 2 (Debian's patch) nothing.
    """

    is_virtual: bool | None
    hypervisor: str | None
    governor: str | None
    turbo: bool | None
    clock_source: str | None
    perf_event_paranoid: int | None


def inspect_surroundings(*, root: Path = Path("/"), cpu: int = 0) -> Surroundings:
    """Read what the kernel says.

    Parameters
    ----------
    root
        Where `proc` and `sys` are found, for tests.
    cpu
        The CPU whose frequency is looked at.
    """
    is_virtual, hypervisor = _hypervisor(root)
    clock = _read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    paranoid = _read(root / "proc/sys/kernel/perf_event_paranoid") or ""
    return Surroundings(
        is_virtual=is_virtual,
        hypervisor=hypervisor,
        governor=_read(root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
        turbo=_turbo(root),
        clock_source=clock,
        perf_event_paranoid=int(paranoid) if re.fullmatch(r"-?\d+", paranoid) else None,
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _hypervisor(root: Path) -> tuple[bool | None, str | None]:
    """Whether there is one, and its name."""
    named = _read(root / "sys/hypervisor/type")
    firmware = [_read(root / f"sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    told = " ".join(word.lower() for word in (named, *firmware) if word)
    name = next(
        (name for name, words in _HYPERVISORS.items() if any(w in told for w in words)), None
    )
    if any(word in (firmware[1] or "").lower() for word in _BARE_METAL):
        return False, None
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    # x86 processors tell their guests; on Arm only firmware and device tree may.
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is not None:
        is_guest = "hypervisor" in flags.group(1).split()
        return is_guest, name if is_guest else None
    tree = _read(root / "proc/device-tree/hypervisor/compatible")
    if tree or name:
        return True, name or (tree or "").strip("\0") or None
    return None, None


def _turbo(root: Path) -> bool | None:
    off = _read(root / "sys/devices/system/cpu/intel_pstate/no_turbo")
    if off in ("0", "1"):
        return off == "0"
    boost = _read(root / "sys/devices/system/cpu/cpufreq/boost")
    return boost == "1" if boost in ("0", "1") else None


# --- noise ---------------------------------------------------------------------------------------

# How quiet this machine is now: what a thread that never sleeps loses, in two seconds.
#
# Two seconds tell whether something else runs here. They don't tell how often a neighbour comes by:
# `forecache profile` looks longer, and an observation before and after each of its windows.


NOISE_S = 2.0
_ROUNDS = 100_000
"""Of the fixed loop: about half a millisecond."""


@dataclass(frozen=True, kw_only=True)
class MachineNoise(Result):
    """What threads that spun on `cpus` all at once for `duration_s` lost.

    Attributes
    ----------
    stolen_fraction
        Share of the time that a hypervisor gave to others (steal in /proc/stat, whose ticks are 10
        ms: shares below about 1% can't be told from none).
    waiting_fraction
        Share of the time that the threads were ready and something else had their CPU (schedstat),
        of the worst CPU; None where this kernel keeps no schedstat.
    loop_p99_over_median
        99th percentile of the time of a fixed loop over its median, of the worst CPU.
    loop_slowest_ms
        What the longest round took.
    """

    cpus: tuple[int, ...]
    duration_s: float
    stolen_fraction: float
    waiting_fraction: float | None
    loop_p99_over_median: float
    loop_slowest_ms: float


def measure_noise(cpus: Sequence[int], *, duration_s: float = NOISE_S) -> MachineNoise:
    """Keep these CPUs busy and see what is taken from them.

    Parameters
    ----------
    cpus
        CPUs that this process may use; a thread spins on each.
    duration_s
        How long.
    """
    rounds_ns: list[list[int]] = [[] for _ in cpus]
    waited_ns: list[int | None] = [None for _ in cpus]
    start_s, stolen_s = time.monotonic(), busy_cpu_seconds(cpus)[1]
    end_s = start_s + duration_s

    def spin(index: int, cpu: int) -> None:
        os.sched_setaffinity(0, {cpu})
        before_ns = _waited_ns()
        while time.monotonic() < end_s:
            began_ns = time.perf_counter_ns()
            dependent_operations_ns(_ROUNDS, 12345, 987654321)
            rounds_ns[index].append(time.perf_counter_ns() - began_ns)
        after_ns = _waited_ns()
        if before_ns is not None and after_ns is not None:
            waited_ns[index] = after_ns - before_ns

    dependent_operations_ns(_ROUNDS, 12345, 987654321)
    threads = [threading.Thread(target=spin, args=pair, daemon=True) for pair in enumerate(cpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.monotonic() - start_s
    stolen_s = busy_cpu_seconds(cpus)[1] - stolen_s
    waits = [wait_ns / 1e9 / elapsed_s for wait_ns in waited_ns if wait_ns is not None]
    spreads = [np.quantile(each, 0.99) / np.median(each) for each in rounds_ns if each]
    return MachineNoise(
        cpus=tuple(cpus),
        duration_s=elapsed_s,
        stolen_fraction=stolen_s / elapsed_s / len(cpus),
        waiting_fraction=max(waits, default=None),
        loop_p99_over_median=float(max(spreads, default=1.0)),
        loop_slowest_ms=max((max(each) for each in rounds_ns if each), default=0) / 1e6,
    )


def _waited_ns() -> int | None:
    """How long this thread has been ready to run without a CPU."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
        return int(text.split()[1])
    except (OSError, ValueError, IndexError):
        return None
