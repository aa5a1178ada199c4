"""What Python, processor, kernel and neighbours allow."""

import platform
import sys
from collections.abc import Iterator

from forecache.hwprofiles.capture.machine import Machine
from forecache.hwprofiles.capture.noise import MachineNoise
from forecache.hwprofiles.capture.surroundings import Surroundings
from forecache.sim.effort import MOST_MEMORY_BYTES

from .abilities import Ability, Status

_GIB = 2**30
TESTED = ((3, 11), (3, 12), (3, 13), (3, 14))
"""Versions of Python that a wheel was installed and run with; see docs/install.md."""

LEAST_CORES = 4
"""Main thread, two I/O threads and a load generator, each with a core of its own."""

MOST_LOST = 0.01
"""Of its time that a thread may lose: a share of 1% is where the 99th percentile sees it."""

MOST_SPREAD = 1.1
"""p99 over median of a fixed loop; predictions of p99 are off by a tenth at best."""

_FAST_CLOCKS = ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
"""Those that are read without a system call."""


def python_ability(machine: Machine | None) -> Ability:
    """The interpreter and the architecture."""
    version = sys.version_info[:2]
    known = version in TESTED
    get = "" if known else "Python 3.11 to 3.14, with which releases are tested"
    if machine is None:
        get = "Linux on x86-64 or aarch64, which profile, observe and study need"
    return Ability(
        id="python",
        title="Python",
        status="yes" if known and machine is not None else "limited",
        found=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        helps="every verb",
        get=get,
        values={
            "version": platform.python_version(),
            "system": platform.system(),
            "architecture": platform.machine(),
        },
    )


def machine_abilities(
    machine: Machine, around: Surroundings, noise: MachineNoise | None
) -> Iterator[Ability]:
    """Cores, memory, limits, hypervisor, frequency, clock and noise."""
    yield _cores(machine)
    yield _limits(machine)
    yield _memory(machine)
    yield _hypervisor(around)
    yield _frequency(around)
    yield _clock(around)
    if noise is not None:
        yield _noise(noise)


def _cores(machine: Machine) -> Ability:
    cpus, per_core = len(machine.cpus), machine.threads_per_core
    threads = f", {per_core} hyperthreads a core" if per_core > 1 else ", no hyperthreads"
    sockets = f", {machine.sockets} sockets" if machine.sockets > 1 else ""
    cores = min(machine.usable_cpus, cpus // per_core)
    status: Status = "yes" if cores >= LEAST_CORES else "limited" if machine.pair else "no"
    get = {
        "yes": "",
        "limited": f"{LEAST_CORES} cores, so that I/O threads and load generator share none",
        "no": "two cores: server and load generator share one here, and wake-ups are assumed",
    }[status]
    return Ability(
        id="cores",
        title="cores",
        status=status,
        found=f"{cpus} CPUs{threads}{sockets}",
        helps="observe --design threads",
        get=get,
        values={
            "cpu_model": machine.cpu_model,
            "cpus": list(machine.cpus),
            "threads_per_core": per_core,
            "sockets": machine.sockets,
            "usable_cpus": machine.usable_cpus,
        },
    )


def _limits(machine: Machine) -> Ability:
    quota = machine.quota_cpus
    return Ability(
        id="cpu_quota",
        title="CPU quota",
        status="yes" if quota is None else "limited",
        found="none" if quota is None else f"{quota:g} CPUs by cgroup",
        helps="p99 of observe",
        get=""
        if quota is None
        else "no quota while you measure: it stops threads for milliseconds",
        values={"quota_cpus": quota},
    )


def _memory(machine: Machine) -> Ability:
    enough = machine.available_bytes >= MOST_MEMORY_BYTES
    return Ability(
        id="memory",
        title="memory",
        status="yes" if enough else "limited",
        found=f"{machine.available_bytes / _GIB:.1f} of {machine.memory_bytes / _GIB:.1f} GiB free",
        helps="data beyond the caches",
        get="" if enough else f"{MOST_MEMORY_BYTES / _GIB:.0f} GiB free memory (or cgroup limit)",
        values={
            "limit_bytes": machine.memory_bytes,
            "available_bytes": machine.available_bytes,
        },
    )


def _hypervisor(around: Surroundings) -> Ability:
    virtual = around.is_virtual
    status: Status = "unknown" if virtual is None else "limited" if virtual else "yes"
    found = {None: "not known", True: "virtual machine", False: "bare metal"}[virtual]
    name = f", {around.hypervisor}" if around.hypervisor else ""
    return Ability(
        id="hypervisor",
        title="hardware",
        status=status,
        found=found + name,
        helps="p99, hardware counters",
        get="bare metal, where no neighbour takes a core away" if virtual else "",
        values={"is_virtual": virtual, "hypervisor": around.hypervisor},
    )


def _frequency(around: Surroundings) -> Ability:
    governor, turbo = around.governor, around.turbo
    parts = [f"governor {governor}"] if governor else []
    if turbo is not None:
        parts.append("turbo on" if turbo else "turbo off")
    steady = governor in (None, "performance")
    status: Status = "unknown" if not parts else "yes" if steady else "limited"
    return Ability(
        id="frequency",
        title="frequency",
        status=status,
        found=", ".join(parts) or "the kernel doesn't say",
        helps="repeatable observe",
        get="" if steady else "cpupower frequency-set -g performance, while you measure",
        values={"governor": governor, "turbo": turbo},
    )


def _clock(around: Surroundings) -> Ability:
    source = around.clock_source
    fast = source in _FAST_CLOCKS
    status: Status = "unknown" if source is None else "yes" if fast else "limited"
    slow = f"a clock that is read without a system call: {_FAST_CLOCKS[0]} at boot (clocksource=)"
    return Ability(
        id="clock_source",
        title="clock source",
        status=status,
        found=source or "the kernel doesn't say",
        helps="latencies of observe",
        get=slow if status == "limited" else "",
        values={"clock_source": source},
    )


def _noise(noise: MachineNoise) -> Ability:
    waiting = noise.waiting_fraction
    quiet = (
        max(noise.stolen_fraction, waiting or 0.0) <= MOST_LOST
        and noise.loop_p99_over_median <= MOST_SPREAD
    )
    waited = "not known" if waiting is None else f"{waiting:.1%}"
    return Ability(
        id="noise",
        title="noise, in 2 s",
        status="yes" if quiet else "limited",
        found=f"stolen {noise.stolen_fraction:.1%}, waiting {waited}, "
        f"p99 ×{noise.loop_p99_over_median:.3g}",
        helps="profile, observe, study",
        get="" if quiet else "an idle machine: end other programs, or repeat at another hour",
        values=noise.to_dict(),
    )
