"""What no machine can have measured, and what is worth a doubt.

An impossible number is refused: times, counts and bytes of one window depend on each other. The
limits are those that all 155 bundles in `evidence/` keep, with room. Numbers that are possible but
unusual, such as a host outside of what was seen so far or windows that other work disturbed, are
doubts, which the page shows beside the result. Hashes show damage; neither they nor these checks
can show that somebody made up numbers that agree with each other.
"""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from forecache import __version__
from forecache.calibration.bundle.bundle import LICENCE, Bundle, is_name
from forecache.calibration.bundle.points import Conditions, ObservedPoint, Repetition
from forecache.hwprofiles import list_hosts
from forecache.hwprofiles.files import parse, read_yaml
from forecache.hwprofiles.quantity import Quantity
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.errors import InputError
from forecache.sim.histogram import LatencyHistogram

from ..counts.shipped import BUNDLES

BUSY = 1.15
"""CPU time of a thread over the time that passed: its counter lags the clock by a tick."""
_SAME = 0.01
"""By how much two ways to the same number may differ."""
_SMALL_BYTES = 4096
"""Of values that fit into one read."""
_DOUBT, _IMPOSSIBLE = 1.5, 5.0
"""How far outside of all hosts known so far a host's number may be."""
_SPEEDS = (
    *("clock_ghz", "user_ipc", "l1_ns", "l2_ns", "l3_ns", "dram_ns", "core_to_core_ns"),
    *("dram_bandwidth_gb_per_s", "syscall_ns", "tcp_recv_ns", "tcp_send_ns", "unix_recv_ns"),
    *("unix_send_ns", "epoll_wait_ns", "epoll_event_ns", "wake_latency_ns"),
)
_EARLIEST = "2026-01-01"


def check(bundle: Bundle, *, now: datetime | None = None) -> list[str]:
    """Refuse what is impossible; the doubts about the rest, a sentence each.

    Raises
    ------
    InputError
        One sentence about the first number that can't be.
    """
    _provenance(bundle, now or datetime.now(UTC))
    if bundle.host is None:
        raise InputError(f"{bundle.path}: found no host.yaml; valid is a bundle with its host.")
    _same_machine(bundle, bundle.host)
    check_measured(bundle)
    return [*_host_doubts(bundle.path, bundle.host), *_window_doubts(bundle)]


def check_measured(bundle: Bundle) -> None:
    """Refuse windows whose numbers don't agree, with each other or with those of other windows."""
    for number, point in enumerate(bundle.points, start=1):
        for index, window in enumerate(point.repetitions, start=1):
            where = f"{bundle.path / 'points.jsonl'}, line {number}, repetition {index}"
            for name, value, low, high in _relations(bundle, point.given, window):
                if not low <= value <= high:
                    raise InputError(
                        f"{where}: found {name} of {value:.4g}; possible is {low:.4g} to "
                        f"{high:.4g}."
                    )
    _in_order(bundle)
    _across_points(bundle)


def _provenance(bundle: Bundle, now: datetime) -> None:
    """Who, when, with which version, and which program."""
    manifest, file = bundle.manifest, bundle.path / "manifest.yaml"

    def refuse(field: str, found: object, valid: str) -> InputError:
        return InputError(f"{file}: field {field!r}: found {str(found)[:60]!r}; valid is {valid}.")

    if not is_name(manifest.contributor or ""):
        raise refuse("contributor", manifest.contributor, "a name of at most 80 letters")
    if manifest.licence != LICENCE:
        raise refuse("licence", manifest.licence, LICENCE)
    try:
        created = datetime.fromisoformat(manifest.created)
        too_early = created < datetime.fromisoformat(_EARLIEST).replace(tzinfo=UTC)
    except (ValueError, TypeError):
        raise refuse("created", manifest.created, "a time with its zone") from None
    if too_early or created > now + timedelta(days=1):
        raise refuse("created", manifest.created, f"a time from {_EARLIEST} to now")
    if _numbers(manifest.forecache_version) > _numbers(__version__):
        raise refuse("forecache_version", manifest.forecache_version, f"at most {__version__}")
    engine = manifest.engine
    if not re.fullmatch(r"[0-9a-f]{64}", engine.sha256):
        raise refuse("engine.sha256", engine.sha256, "a SHA-256 in hexadecimal digits")
    known = _known_programs().get(engine.sha256)
    if known not in (None, (engine.name, engine.version)):
        raise refuse("engine.version", engine.version, f"{known}, of the program with this hash")


def _numbers(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)[:3]]


@cache
def _known_programs() -> Mapping[str, tuple[str, str]]:
    """Name and version by hash, of the programs of this project's own bundles."""
    found = {}
    for file in sorted(BUNDLES.glob("*/manifest.yaml")):
        engine = read_yaml(file)["engine"]
        found[engine["sha256"]] = (engine["name"], engine["version"])
    return found


def _same_machine(bundle: Bundle, host: HostProfile) -> None:
    """The host's profile, INFO and the manifest are of one machine and one engine."""
    machine, engine, captured = bundle.manifest.machine, bundle.manifest.engine, host.captured
    file = bundle.path / "host.yaml"
    if captured is None:
        raise InputError(f"{file}: found no captured; valid is what `forecache profile` wrote.")
    for name in ("cpu_model", "kernel"):
        found, wanted = getattr(captured, name), getattr(machine, name)
        if found != wanted:
            raise InputError(
                f"{file}: field 'captured.{name}': found {found[:60]!r}; valid is that of the "
                f"bundle's manifest, {wanted[:60]!r}."
            )
    days = abs((_day(captured.date) - _day(bundle.manifest.created)).days)
    if days > 31:
        raise InputError(
            f"{file}: field 'captured.date': found {captured.date!r}, {days} days from the "
            "observation; valid is at most 31."
        )
    for point in bundle.points:
        text = bundle.info_text(point) or ""
        told = re.search(r"^(?:valkey_version|redis_version):(\S+)", text, re.MULTILINE)
        if "valkey_version:" in text:
            told = re.search(r"^valkey_version:(\S+)", text, re.MULTILINE)
        system = re.search(r"^os:Linux (\S+)", text, re.MULTILINE)
        for what, found_there, wanted in (
            ("version", told, engine.version),
            ("kernel", system, machine.kernel),
        ):
            if found_there is not None and found_there[1] != wanted:
                raise InputError(
                    f"{bundle.path / str(point.info)}: found the {what} {found_there[1][:40]!r}; "
                    f"valid is that of the manifest, {wanted[:40]!r}."
                )


def _day(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text[:10])
    except ValueError:
        raise InputError(f"captured.date: found {text[:40]!r}; valid is a day.") from None


Relation = tuple[str, float, float, float]
"""What it is, its value, and the least and most it can be."""


def _relations(bundle: Bundle, given: Conditions, window: Repetition) -> Iterator[Relation]:
    """What the numbers of one window say of each other."""
    rate, seconds = window.throughput_rps, window.duration_s
    own = bundle.manifest.method.tool == "forecache"
    served = window.requests / seconds
    if own:
        yield "requests over time and throughput", served / rate, 1 - _SAME, 1 + _SAME
    threads = {
        "main thread": (window.main_thread_cpu_ns_per_request, window.main_thread_utilisation),
        "load generator": (window.generator_cpu_ns_per_request, window.generator_utilisation),
    }
    for name, (cpu_ns, busy) in threads.items():
        most = given.generator_threads if name == "load generator" else 1
        yield f"a busy share of the {name}", busy, 0.0, most * BUSY
        if busy > _SAME:
            ratio = cpu_ns * served / 1e9 / busy
            yield f"CPU time and busy share of the {name}", ratio, 1 - _SAME, 1 + _SAME
    for cpu_ns in window.io_thread_cpu_ns_per_request:
        yield "a busy share of an I/O thread", cpu_ns * served / 1e9, 0.0, BUSY
    whole_ns = window.server_cpu_ns_per_request + window.other_thread_cpu_ns_per_request
    cores = bundle.manifest.machine.cores_available
    yield "CPUs used by the server", whole_ns * served / 1e9, 0.0, cores * BUSY
    yield from _latencies(given, window)
    yield from _bytes(bundle, given, window)


def _latencies(given: Conditions, window: Repetition) -> Iterator[Relation]:
    known = [
        ms for ms in (window.p50_ms, window.p90_ms, window.p99_ms, window.p999_ms) if ms is not None
    ]
    for lower, higher in pairwise(known):
        yield "a quantile of latency over the next", lower / max(higher, 1e-12), 0.0, 1.0 + 1e-6
    if window.mean_ms is not None and given.arrival == "closed_loop":
        # Little's law: no more requests are under way than clients have.
        waiting = window.throughput_rps * (window.mean_ms + given.think_us / 1e3) / 1e3
        share = waiting / (given.clients * given.pipeline)
        yield "requests under way over those that clients have", share, 0.0, 2.0
    if window.histogram is not None:
        histogram = LatencyHistogram.from_dict(window.histogram)
        yield "latencies recorded over requests", histogram.count / window.requests, 0.99, 1.2
        for share, ms in ((0.5, window.p50_ms), (0.99, window.p99_ms)):
            if ms:
                ratio = histogram.quantile(share) / 1e9 / ms
                yield f"quantile {share} by the histogram and as told", ratio, 0.99, 1.01


def _bytes(bundle: Bundle, given: Conditions, window: Repetition) -> Iterator[Relation]:
    if window.used_memory_bytes is not None:
        data = given.keys * given.value_bytes
        yield "used memory over the values", window.used_memory_bytes / max(data, 1.0), 1.0, np.inf
    if given.value_bytes <= _SMALL_BYTES:
        for name in ("reads_per_request", "writes_per_request"):
            if (count := getattr(window, name)) is not None:
                words = name.replace("_", " ")
                yield words, count, (0.0 if name[0] == "w" else 0.95 / given.pipeline), 1.1
    received, sent = window.received_bytes_per_request, window.sent_bytes_per_request
    if bundle.manifest.engine.name == "memcached" or window.misses:
        return
    value = given.value_bytes + len(str(int(given.value_bytes))) + 5  # $n, two line ends
    key = given.key_bytes + len(str(given.key_bytes)) + 5
    gets = given.get_fraction
    if received is not None:
        expected = gets * value + (1.0 - gets) * 5  # +OK
        yield "bytes of a reply over those of its value", received / expected, 0.96, 1.04
    if sent is not None:
        expected = 13 + key + (1.0 - gets) * value  # *2 $3 GET
        yield "bytes of a request over those of its key and value", sent / expected, 0.6, 1.25


def _in_order(bundle: Bundle) -> None:
    """Windows come one after the other, and within the observation."""
    windows = sorted(
        (window.started_s, window.started_s + window.duration_s)
        for point in bundle.points
        for window in point.repetitions
    )
    file = bundle.path / "points.jsonl"
    for (_, end_s), (start_s, _) in pairwise(windows):
        if start_s < end_s - 1e-3:
            raise InputError(
                f"{file}: found a window from {start_s:.3f} s on while one lasts until "
                f"{end_s:.3f} s; possible is one at a time."
            )
    if windows[0][0] < 0.0 or windows[-1][1] > bundle.manifest.elapsed_s + 1.0:
        raise InputError(
            f"{file}: found windows from {windows[0][0]:.1f} to {windows[-1][1]:.1f} s; possible "
            f"is within the {bundle.manifest.elapsed_s:.1f} s of the observation."
        )


def _across_points(bundle: Bundle) -> None:
    """Repeats differ; longer pipelines and shorter values take no more CPU time."""
    file = bundle.path / "points.jsonl"
    spreads = [
        point.spread("server_cpu_ns_per_request")
        for point in bundle.points
        if len(point.repetitions) > 1
    ]
    if len(spreads) >= 3 and statistics.median(spreads) < 5e-4:
        raise InputError(
            f"{file}: found repeats that differ by {statistics.median(spreads):.2%} in the median; "
            "possible is more: the least of 155 bundles is 0.3%."
        )
    for field, least, most in (("pipeline", 0.0, 1.2), ("value_bytes", 0.5, np.inf)):
        for low, high, ratio in _steps(bundle.points, field):
            if not least <= ratio <= most:
                raise InputError(
                    f"{file}: found {ratio:.2f} times the CPU time a request with {high.label()} "
                    f"as with {low.label()}; possible is {least:g} to {most:g}."
                )


def _steps(
    points: list[ObservedPoint], field: str
) -> Iterator[tuple[Conditions, Conditions, float]]:
    """Pairs of points that differ in one field alone, by a factor of 16 or more."""
    groups: dict[Conditions, list[ObservedPoint]] = defaultdict(list)
    for point in points:
        given = point.given
        plain = given.arrival == "closed_loop" and not given.think_us and given.value_sizes is None
        if plain and given.io_threads == 1:
            groups[given.model_copy(update={field: 1, "role": "fit"})].append(point)
    for group in groups.values():
        for low in group:
            for high in group:
                if getattr(high.given, field) >= 16 * max(getattr(low.given, field), 1):
                    times = [each.ordinary("server_cpu_ns_per_request") for each in (high, low)]
                    yield low.given, high.given, times[0] / times[1]


def _host_doubts(path: Path, host: HostProfile) -> list[str]:
    """Numbers outside of those of all hosts known so far; refused where far outside."""
    file, found = path / "host.yaml", []
    speed = host.speed()
    times = {name: getattr(speed, name) for name in ("l1_ns", "l2_ns", "l3_ns", "dram_ns")}
    for lower, higher in pairwise(times):
        if not 0.0 < times[lower] < times[higher]:
            raise InputError(
                f"{file}: found {lower} {times[lower]:.4g} and {higher} {times[higher]:.4g}; "
                "possible is a longer time farther away."
            )
    for name, (least, most) in _known_speeds().items():
        value = getattr(speed, name)
        off = max(least / value, value / most) if value > 0 else np.inf
        if off > _IMPOSSIBLE:
            raise InputError(
                f"{file}: found {name} {value:.4g}; plausible is {least / _IMPOSSIBLE:.3g} to "
                f"{most * _IMPOSSIBLE:.3g}, {_IMPOSSIBLE:g} times beyond all hosts known so far."
            )
        if off > _DOUBT:
            found.append(
                f"{name} of the host is {value:.4g}; all others have {least:.3g} to {most:.3g}"
            )
    for name, repeats in (host.raw or {}).items():
        leaf = getattr(host, name, None) or getattr(host.kernel, name, None)
        numbers = _plain(repeats)
        if not isinstance(leaf, Quantity) or leaf.kind != "measured" or not numbers:
            continue
        if not 0.99 * min(numbers) <= leaf.best <= 1.01 * max(numbers):
            raise InputError(
                f"{file}: found {name} {leaf.best:.4g}; possible is between its repetitions under "
                f"raw, {min(numbers):.4g} to {max(numbers):.4g}."
            )
    return found


def _plain(repeats: Any) -> list[float]:
    """Repetitions of one number; nothing of a curve."""
    if isinstance(repeats, list) and all(isinstance(each, int | float) for each in repeats):
        return [float(each) for each in repeats]
    return []


@cache
def _known_speeds() -> Mapping[str, tuple[float, float]]:
    """Least and most of the catalogue's hosts and of those on which engines were calibrated."""
    hosts = list_hosts()
    for file in sorted(Path("evidence/generations").glob("*/*/calibration/host.yaml")):
        hosts.append(parse(HostProfile, read_yaml(file), file=file))
    speeds = [dataclasses.asdict(host.speed()) for host in hosts]
    return {
        name: (min(speed[name] for speed in speeds), max(speed[name] for speed in speeds))
        for name in _SPEEDS
    }


def _window_doubts(bundle: Bundle) -> list[str]:
    """How many windows were disturbed, and how much repeats differ."""
    windows = [window for point in bundle.points for window in point.repetitions]
    found = []
    counts: Mapping[str, Callable[[Repetition], bool]] = {
        "were disturbed by other work, a move of the cores or who shares them": (
            lambda window: not window.quiet
        ),
        "had a load generator that was nearly saturated": lambda w: "generator" in w.flags,
        "had errors or misses": lambda w: bool(w.errors or w.misses),
    }
    for words, holds in counts.items():
        share = sum(map(holds, windows)) / len(windows)
        if share > 0.25:
            found.append(f"{share:.0%} of {len(windows)} windows {words}")
    spreads = [point.spread("server_cpu_ns_per_request") for point in bundle.points]
    middle = statistics.median(spreads)
    if middle > 0.2:
        found.append(f"repeats of a point differ by {middle:.0%} in the median")
    return found
