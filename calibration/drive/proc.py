"""What Linux knows about a thread (CPU time, waiting, switches) and about the host."""

from dataclasses import dataclass
from pathlib import Path

from forecache.sim.errors import EngineError


@dataclass(frozen=True)
class ThreadUsage:
    """Totals of one thread since it started, or between two looks.

    Attributes
    ----------
    cpu_ns
        Time on a core (/proc/PID/task/TID/schedstat, first field). While a thread runs without a
        break the kernel brings it up to date at its tick, 1 to 10 ms.
    wait_ns
        Time ready to run while something else had the core (second field).
    voluntary_switches, involuntary_switches
        Times it slept, and times it was preempted (/proc/PID/task/TID/status).
    """

    cpu_ns: int
    wait_ns: int
    voluntary_switches: int
    involuntary_switches: int

    def since(self, earlier: "ThreadUsage") -> "ThreadUsage":
        """The difference to an earlier look."""
        return ThreadUsage(
            self.cpu_ns - earlier.cpu_ns,
            self.wait_ns - earlier.wait_ns,
            self.voluntary_switches - earlier.voluntary_switches,
            self.involuntary_switches - earlier.involuntary_switches,
        )


def thread_usage(pid: int, tid: int) -> ThreadUsage:
    """Look at one thread.

    Raises
    ------
    EngineError
        The thread is gone, or this kernel keeps no schedstat (CONFIG_SCHED_INFO).
    """
    folder = Path(f"/proc/{pid}/task/{tid}")
    try:
        # CPU time first: it is what must fit the window best.
        cpu_ns, wait_ns, _ = (int(word) for word in (folder / "schedstat").read_text().split())
        status = (folder / "status").read_text()
    except (OSError, ValueError) as error:
        raise EngineError(
            f"CPU time of thread {tid} of process {pid} can't be read: {error}."
        ) from None
    switches = {"voluntary_ctxt_switches": 0, "nonvoluntary_ctxt_switches": 0}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name in switches:
            switches[name] = int(value)
    return ThreadUsage(cpu_ns, wait_ns, *switches.values())


def core_times_ns(cores: "frozenset[int] | set[int]") -> tuple[int, int, int]:
    """Time of these cores since boot: (busy or idle, steal, idle) in ns, from /proc/stat.

    Steal is what the hypervisor gave to other machines. The resolution is 10 ms a core.
    """
    total = steal = idle = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            ticks = [int(field) for field in fields]
            total += sum(ticks[:8])
            idle += ticks[3] + ticks[4]
            steal += ticks[7]
    return total * 10**7, steal * 10**7, idle * 10**7


def available_memory_bytes() -> int | None:
    """Memory a new process can take without swapping, or None when the kernel doesn't say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
