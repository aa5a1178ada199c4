"""What the kernel says about this machine, and what others take of its CPUs.

It says cores, caches, memory, hypervisor, clock and perf's limits; what it doesn't say is None:
containers and virtual machines hide much. `measure_noise` keeps CPUs busy and sees what they lose.
"""

import os
import platform
import re
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from forecache.sim.errors import InputError
from forecache.sim.plain import Result

from .cores import dependent_operations_ns
from .loops import run_side_by_side

_ISAS = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}

# Arm part numbers (MIDR_EL1), from the Technical Reference Manuals; x86 kernels give the name.
_ARM_PARTS = {
    "0xd08": "Cortex-A72",
    "0xd0c": "Neoverse N1",
    "0xd40": "Neoverse V1",
    "0xd49": "Neoverse N2",
    "0xd4f": "Neoverse V2",
    "0xd84": "Neoverse V3",
}


_FAMILY = ("cpu family", "model")


@dataclass(frozen=True)
class CacheFacts:
    """One cache level as sysfs describes it."""

    size_bytes: int
    line_bytes: int
    shared_by_cpus: int


@dataclass(frozen=True)
class Machine:
    """The machine as this process may use it.

    `cpus` are the numbers of the CPUs it may run on; `quota_cpus` is a limit on CPU time in CPUs
    (cgroup), None without one. `cpu_family` is x86's family and model (`25-1`), which tell
    generations apart that hypervisors give one name; empty elsewhere. `pair` is two CPUs of
    different cores, one socket if possible.
    """

    isa: str
    cpu_model: str
    cpu_family: str
    kernel: str
    cpus: tuple[int, ...]
    quota_cpus: float | None
    threads_per_core: int
    sockets: int
    pair: tuple[int, int] | None
    caches: dict[int, CacheFacts]
    memory_bytes: int
    available_bytes: int

    @property
    def usable_cpus(self) -> int:
        """CPUs' worth of time this process can have, at least one."""
        if self.quota_cpus is None:
            return len(self.cpus)
        return max(1, min(len(self.cpus), int(self.quota_cpus + 1e-9)))


def inspect_machine(
    *,
    root: Path = Path("/"),
    cpus: Sequence[int] | None = None,
    isa: str | None = None,
) -> Machine:
    """Describe the machine.

    Parameters
    ----------
    root
        Where `proc` and `sys` are found, for tests.
    cpus
        CPUs to assume instead of those this process may run on.
    isa
        Machine name to assume instead of the running one's (`x86_64`, `aarch64`).

    Raises
    ------
    InputError
        Not Linux, or neither x86-64 nor aarch64.
    """
    machine = (isa or platform.machine()).lower()
    if platform.system() != "Linux" or machine not in _ISAS:
        raise InputError(
            f"a profile can't be captured on {platform.system()} {machine}; "
            "valid is Linux on x86-64 or aarch64."
        )
    allowed = tuple(sorted(os.sched_getaffinity(0) if cpus is None else cpus))
    cores = {cpu: _physical_core(root, cpu) for cpu in allowed}
    per_core = max(list(cores.values()).count(core) for core in cores.values())
    limit, available = _memory(root)
    return Machine(
        isa=_ISAS[machine],
        cpu_model=_cpu_model(root),
        cpu_family=_cpu_family(root),
        kernel=platform.release(),
        cpus=allowed,
        quota_cpus=_quota(root),
        threads_per_core=per_core,
        sockets=len({socket for socket, _ in cores.values()}),
        pair=_pair(cores),
        caches=_caches(root, allowed[0]),
        memory_bytes=limit,
        available_bytes=available,
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _physical_core(root: Path, cpu: int) -> tuple[str, str]:
    """(socket, core) of a CPU; each CPU its own core where sysfs has no topology."""
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    socket = _read(folder / "physical_package_id") or "0"
    siblings = _read(folder / "thread_siblings_list") or str(cpu)
    return socket, siblings


def pair_among(cpus: Iterable[int], *, root: Path = Path("/")) -> tuple[int, int] | None:
    """The `pair` of a machine that may use only these CPUs."""
    return _pair({cpu: _physical_core(root, cpu) for cpu in sorted(cpus)})


def _pair(cores: dict[int, tuple[str, str]]) -> tuple[int, int] | None:
    """Two CPUs on different cores, on one socket where there are such."""
    candidates = [
        (first, second)
        for first in cores
        for second in cores
        if first < second and cores[first] != cores[second]
    ]
    same_socket = [pair for pair in candidates if cores[pair[0]][0] == cores[pair[1]][0]]
    return next(iter(same_socket or candidates), None)


def _caches(root: Path, cpu: int) -> dict[int, CacheFacts]:
    """Data and unified caches by level."""
    found = {}
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache"
    for index in sorted(folder.glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        matched = re.fullmatch(r"(\d+)([KMG]?)", size or "")
        if kind == "Instruction" or not matched or not (level or "").isdigit():
            continue
        scale = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}[matched.group(2)]
        line = _read(index / "coherency_line_size") or ""
        shared = parse_cpu_list(_read(index / "shared_cpu_list") or "")
        found[int(level or 0)] = CacheFacts(
            size_bytes=int(matched.group(1)) * scale,
            line_bytes=int(line) if line.isdigit() and int(line) > 0 else 64,
            shared_by_cpus=max(1, len(shared)),
        )
    return {level: facts for level, facts in found.items() if facts.size_bytes > 0}


def parse_cpu_list(text: str) -> list[int]:
    """CPU numbers of a kernel list such as `0-3,8`; empty where the text is not one."""
    cpus: list[int] = []
    for part in text.split(","):
        matched = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if matched:
            first = int(matched.group(1))
            cpus += range(first, int(matched.group(2) or first) + 1)
    return cpus


def _cpu_model(root: Path) -> str:
    text = _read(root / "proc/cpuinfo") or ""
    named = re.search(r"^model name\s*:\s*(\S.*)$", text, re.MULTILINE)
    if named:
        return named.group(1).strip()
    part = re.search(r"^CPU part\s*:\s*(0x[0-9a-f]+)$", text, re.MULTILINE)
    if part:
        return _ARM_PARTS.get(part.group(1), f"Arm part {part.group(1)}")
    return "unknown CPU"


def _cpu_family(root: Path) -> str:
    text = _read(root / "proc/cpuinfo") or ""
    found = [re.search(rf"^{name}\s*:\s*(\d+)$", text, re.MULTILINE) for name in _FAMILY]
    return "-".join(match.group(1) for match in found if match)


def _cgroup_folders(root: Path, controller: str) -> list[Path]:
    """This process's cgroup folders for a controller, innermost first, version 2 and 1."""
    text = _read(root / "proc/self/cgroup") or ""
    folders = []
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        base = root / "sys/fs/cgroup"
        if names:
            if controller not in names.split(","):
                continue
            base = base / controller
        inner = base / path.lstrip("/")
        folders += [inner, *(parent for parent in inner.parents if parent.is_relative_to(base))]
    return folders


def _quota(root: Path) -> float | None:
    """The tightest limit on CPU time, in CPUs."""
    limits = []
    for folder in _cgroup_folders(root, "cpu"):
        quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        words = (_read(folder / "cpu.max") or "").split()
        if len(words) == 2:
            quota, period = words
        if quota and period and quota.isdigit() and period.isdigit() and int(period) > 0:
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _memory(root: Path) -> tuple[int, int]:
    """Bytes of memory this process can ever have, and can have now."""
    text = _read(root / "proc/meminfo") or ""
    amounts = {
        name: int(kilobytes) * 1024
        for name, kilobytes in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)
    }
    total = amounts.get("MemTotal", 1024**3)
    available = amounts.get("MemAvailable", total // 2)
    for folder in _cgroup_folders(root, "memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _read(folder / limit_name), _read(folder / used_name)
            if limit and limit.isdigit() and int(limit) < total:
                total = int(limit)
                in_use = int(used) if used and used.isdigit() else 0
                available = min(available, max(0, total - in_use))
    return total, available


def busy_cpu_seconds(cpus: Sequence[int], *, root: Path = Path("/")) -> tuple[float, float]:
    """Seconds these CPUs have been busy since boot, and seconds a hypervisor withheld them."""
    text = _read(root / "proc/stat") or ""
    ticks = os.sysconf("SC_CLK_TCK")
    busy = stolen = 0
    for line in text.splitlines():
        matched = re.match(r"cpu(\d+) (.*)", line)
        if matched and int(matched.group(1)) in cpus:
            counts = [int(count) for count in matched.group(2).split()]
            # user nice system idle iowait irq softirq steal ...
            busy += sum(counts[:3]) + sum(counts[5:7])
            stolen += counts[7] if len(counts) > 7 else 0
    return busy / ticks, stolen / ticks


# --- what stands between this process and the processor -------------------------------------------


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
    # The first call compiles the loops, which may take longer than is measured.
    dependent_operations_ns(_ROUNDS, 12345, 987654321)
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

    run_side_by_side(partial(spin, index, cpu) for index, cpu in enumerate(cpus))
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
