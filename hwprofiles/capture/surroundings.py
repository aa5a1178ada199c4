"""What stands between this process and the processor: hypervisor, frequency, clock, perf's limits.

What a kernel doesn't say is None: containers and virtual machines hide much of it.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from forecache.sim.plain import Result

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
