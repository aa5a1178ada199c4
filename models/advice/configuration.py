"""The files that make an engine run as predicted: its settings, and who gets which CPUs.

Directives: Redis has `server_cpulist`, `bio_cpulist`, `aof_rewrite_cpulist` and `bgsave_cpulist`
from 6.0 on (`setcpuaffinity.c`, commit 1a0deab2). Redis 8.0 and Valkey 8.0 spell them with hyphens
and take the old names too. The first holds for the main thread and every I/O thread. A child that
has no list of its own inherits the main thread's. Older engines and Memcached have none of them.

`AllowedCPUs=` is a cpuset of control groups v2 (systemd 244), which no process in it can leave;
`CPUAffinity=` and taskset are only what it begins with.
"""

from __future__ import annotations

from ..engines.profile import EngineProfile
from ..scenario.schema import Scenario
from ..step_times.policy_times import do_reads
from .placement import CpuNumbers, Placement, cpu_list


def configuration_file(engine: EngineProfile) -> str:
    """The file that holds the settings, or a name for settings that users cannot change."""
    own = "valkey.conf" if engine.engine == "valkey" else "redis.conf"
    return engine.threading.configuration_file or own


def configuration(scenario: Scenario, engine: EngineProfile) -> str:
    """The text of that file; empty where the engine has no such settings."""
    policy = engine.threading
    return policy.configuration.format(
        io_threads=scenario.io_threads,
        settings="".join(f"{line}\n" for line in _settings(scenario, engine)),
        tls=policy.tls_configuration if scenario.tls is not None else "",
    )


def _settings(scenario: Scenario, engine: EngineProfile) -> list[str]:
    """Lines of a configuration file for settings that differ from the engine's own."""
    lines = []
    if scenario.io_threads > 1 and "events_per_io_thread" in engine.threading.settings:
        if engine.version.startswith("8.0"):
            lines.append("io-threads-do-reads yes")
        events = scenario.events_per_io_thread
        if events is not None and events != engine.events_per_io_thread:
            lines.append(f"events-per-io-thread {events}")
    if do_reads(scenario, engine) and scenario.io_threads > 1:
        lines.append("io-threads-do-reads yes")
    batch = scenario.prefetch_batch
    if engine.prefetch_batch > 0 and batch is not None and batch != engine.prefetch_batch:
        lines.append(f"prefetch-batch-max-size {batch}")
    return lines


SLICE = "cache.slice"
"""Of the server, so that a list of CPUs for `system.slice` does not hold for it."""

_LISTS = ("server-cpulist", "bio-cpulist", "aof-rewrite-cpulist", "bgsave-cpulist")
_FIRST_WITH_LISTS = (6, 0)
_FIRST_WITH_HYPHENS = (8, 0)
_PROGRAMS = {"redis": "redis-server", "valkey": "valkey-server", "memcached": "memcached"}


def can_be_placed(engine: EngineProfile) -> bool:
    """Whether users start the engine themselves, and its process is known here."""
    return engine.engine in _PROGRAMS


def has_lists(engine: EngineProfile) -> bool:
    """Whether the engine has directives for lists of CPUs."""
    return forks(engine) and _version(engine) >= _FIRST_WITH_LISTS


def forks(engine: EngineProfile) -> bool:
    """Whether the engine saves by a child."""
    return engine.engine in ("redis", "valkey")


def _version(engine: EngineProfile) -> tuple[int, ...]:
    return tuple(int(part) for part in engine.version.split(".")[:2])


def list_names(engine: EngineProfile) -> list[str]:
    """The directives as this version spells them: server, background threads, both children."""
    if not has_lists(engine):
        return []
    if _version(engine) >= _FIRST_WITH_HYPHENS:
        return list(_LISTS)
    return [name.replace("-", "_") for name in _LISTS]


def conf_lines(engine: EngineProfile, placement: Placement) -> list[str]:
    """Lines of the configuration file; none where nothing is kept apart."""
    if not placement.separates:
        return []
    background = cpu_list(placement.background)
    lists = [cpu_list(placement.server), background, background, background]
    return [f"{name} {cpus}" for name, cpus in zip(list_names(engine), lists, strict=False)]


def process_cpus(engine: EngineProfile, placement: Placement) -> tuple[int, ...]:
    """CPUs that the process starts with: all that its threads and children need."""
    if not forks(engine):
        return placement.server
    return tuple(sorted({*placement.server, *placement.background}))


def taskset_line(scenario: Scenario, engine: EngineProfile, placement: Placement) -> str:
    """The command that starts the engine on its CPUs."""
    program, cpus = _PROGRAMS[engine.engine], cpu_list(process_cpus(engine, placement))
    how = configuration_file(engine)
    if engine.engine == "memcached":
        how = configuration(scenario, engine).strip()
    return f"taskset -c {cpus} {program} {how}"


def files_of(
    scenario: Scenario, engine: EngineProfile, machine: CpuNumbers, placement: Placement
) -> dict[str, str]:
    """Files to install, by path."""
    program = _PROGRAMS[engine.engine]
    own = [*configuration(scenario, engine).splitlines(), *conf_lines(engine, placement)]
    name = "memcached.options" if engine.engine == "memcached" else configuration_file(engine)
    files = {name: "".join(f"{line}\n" for line in own)}
    if not placement.separates:
        return files
    files["start.sh"] = f'#!/bin/sh\nexec {taskset_line(scenario, engine, placement)} "$@"\n'
    files["check-cpus.sh"] = _check(machine)
    cpus = cpu_list(process_cpus(engine, placement), separator=" ")
    files[f"systemd/{program}.service.d/cpus.conf"] = (
        f"[Service]\nSlice={SLICE}\nCPUAffinity={cpus}\nAllowedCPUs={cpus}\n"
    )
    for unit, section in (
        ("system.slice", "Slice"),
        ("user.slice", "Slice"),
        ("init.scope", "Scope"),
    ):
        cpus = cpu_list(placement.neighbours, separator=" ")
        files[f"systemd/{unit}.d/cpus.conf"] = f"[{section}]\nAllowedCPUs={cpus}\n"
    if placement.interrupts:
        files["irq-affinity.sh"] = _interrupts(placement)
    if scenario.main_thread_pinned and forks(engine) and len(placement.server) > 1:
        files["pin-main-thread.sh"] = _pinned(program, placement)
    return files


def _check(machine: CpuNumbers) -> str:
    """Refuses a host whose CPUs are numbered in another way."""
    pairs = " ".join(f"{core[0]}:{','.join(map(str, core))}" for core in machine.cores)
    return f"""#!/bin/sh
# Says whether this host numbers its CPUs as the plan has it: CPU:CPUS OF ITS CORE.
status=0
for pair in {pairs}; do
    cpu=${{pair%%:*}}
    file=/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list
    found=$(tr - , < "$file" 2>/dev/null)
    if [ "$found" != "${{pair#*:}}" ]; then
        echo "CPU $cpu: found core '$found', the plan has '${{pair#*:}}'" >&2
        status=1
    fi
done
exit $status
"""


def _interrupts(placement: Placement) -> str:
    """Interrupts of one interface, queue by queue; ENA's are named IFACE-Tx-Rx-N."""
    cpus = placement.interrupts
    return f"""#!/bin/sh
# Puts the queues' interrupts of a network interface on CPUs of their own: INTERFACE
# As root, after every boot. irqbalance would move them back.
set -eu
nic=${{1:?usage: irq-affinity.sh INTERFACE}}
cpus="{" ".join(map(str, cpus))}"
systemctl stop irqbalance 2>/dev/null || true
ethtool -L "$nic" combined {len(cpus)} || echo "$nic keeps its number of queues" >&2
device=/sys/class/net/$nic/device
for folder in "$device/msi_irqs" "$device/../msi_irqs"; do
    [ -d "$folder" ] && break
done
set -- $cpus
for path in $(ls -d "$folder"/* | sort -V); do
    [ $# -gt 0 ] || set -- $cpus
    irq=${{path##*/}}
    # Configuration interrupts may not be moved: they are rare.
    if echo "$1" > "/proc/irq/$irq/smp_affinity_list"; then shift; fi
done
# No packet is handed on to a CPU that its interrupt did not come to.
for rps in /sys/class/net/"$nic"/queues/rx-*/rps_cpus; do
    echo 0 > "$rps"
done
"""


def _pinned(program: str, placement: Placement) -> str:
    """The main thread on a CPU of its own; I/O threads, which may be named, on the rest."""
    first, *rest = placement.server
    return f"""#!/bin/sh
# Gives the main thread a CPU of its own: PID of {program}. After every start.
set -eu
pid=${{1:?usage: pin-main-thread.sh PID}}
taskset -p -c {first} "$pid"
for task in /proc/"$pid"/task/*; do
    case $(cat "$task/comm") in
        io_thd_*) taskset -p -c {cpu_list(rest)} "${{task##*/}}" ;;
    esac
done
"""
