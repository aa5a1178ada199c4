"""Benchmark tools: instructions counted in valgrind, CPU time measured on hosts of several kinds.

The study `load-generators` measures the tools named by `--only PATH` (or those on PATH) on this
host, and keeps what other hosts said. `load-generator-work` writes the shipped profiles from it:
counts are the mean over versions; scales, which are much the same for both, over tools and hosts.
"""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

from forecache.calibration.drive.servers import find_engine
from forecache.calibration.observe.tool_profile import (
    REQUEST_SHARE,
    ToolCounts,
    count_tool,
    factors,
    predicted_us,
    time_tool,
    tool_title,
)
from forecache.calibration.observe.tools import find_tool
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.files import dump_yaml, read_yaml
from forecache.hwprofiles.quantity import Quantity

from ..harness import Asked, Files

ARTEFACT = Path("evidence/counts/tool_counts.json")
GENERATORS = Path("models/engines/generators")
TOOLS = ("valkey-benchmark", "redis-benchmark")

_TITLE = "benchmark tools counted in valgrind and timed by this project"


def artefact(asked: Asked) -> Files:
    """Count and time every tool; hosts measured earlier stay."""
    kept: dict[str, Any] = json.loads(ARTEFACT.read_text()) if ARTEFACT.is_file() else {}
    counts, hosts = kept.get("counts", {}), kept.get("hosts", {})
    host = capture_host(progress=asked.progress)
    speed, captured = host.speed(), host.captured
    assert captured is not None  # it was captured just now
    engine = find_engine(None)
    on_host = hosts.setdefault(captured.cpu_model, {})
    for name in asked.engines(TOOLS):
        tool = find_tool(name)
        title = tool_title(tool)
        counted = count_tool(tool, engine, progress=asked.progress)
        counts[title] = counted.to_dict()
        points = time_tool(tool, engine, progress=asked.progress)
        found = factors(counted, points, speed)
        fitted_us = predicted_us(counted, points, speed, found)
        on_host[title] = {
            "date": captured.date,
            "kernel": captured.kernel,
            "notes": host.notes,
            "kernel_ns": {
                path.removeprefix("kernel."): leaf.value
                for path, leaf in host.quantities()
                if path.startswith("kernel.")
            },
            "scales": {
                each: {"value": found.factor(each), "error": found.error(each)}
                for each in ("user", "kernel", "wake")
            },
            "points": [
                {**point.to_dict(), "fitted_us": us}
                for point, us in zip(points, fitted_us, strict=True)
            ],
        }
    text = json.dumps({"counts": counts, "hosts": hosts}, indent=1, sort_keys=True)
    return {ARTEFACT: text + "\n"}


def profiles(_asked: Asked) -> Files:
    """The shipped profiles of both tools, from what was counted and timed."""
    kept = json.loads(ARTEFACT.read_text())
    hosts = kept["hosts"]
    timed = [tool for host in hosts.values() for tool in host.values()]
    scales = _scales([tool["scales"] for tool in timed])
    files = {}
    for name in TOOLS:
        counts = {
            title: ToolCounts(**row) for title, row in kept["counts"].items() if name in title
        }
        path = GENERATORS / f"{name}.yaml"
        data = dict(read_yaml(path))
        data["sources"]["tool-counts"] = {
            "title": _TITLE,
            "file": str(ARTEFACT),
            "accessed": max(tool["date"] for tool in timed),
            "note": f"{', '.join(counts)}; CPU time on {', '.join(hosts)}",
        }
        found = {key: leaf.model_dump(mode="json") for key, leaf in _counted(counts).items()}
        found |= {key: leaf.model_dump(mode="json") for key, leaf in scales.items()}
        data["work"] = {**data["work"], **found}
        files[path] = dump_yaml(data)
    return files


def _counted(counts: dict[str, ToolCounts]) -> dict[str, Quantity]:
    """Means over versions, with the range between them."""
    rows = list(counts.values())
    found = {
        "poll_rounds": ([c.poll_rounds for c in rows], "calls", "epoll_wait per batch"),
        "batch_syscalls": ([0.0], "calls", "nothing else is called"),
        "epoll_changes": ([c.epoll_changes for c in rows], "calls", "epoll_ctl per batch"),
        "poll_instructions": (
            [c.poll_rounds * c.poll_instructions for c in rows],
            "instructions",
            "of one client against many",
        ),
        "batch_instructions": (
            [c.batch_instructions for c in rows],
            "instructions",
            "by length of pipeline",
        ),
        "request_instructions": (
            [REQUEST_SHARE * c.request_instructions for c in rows],
            "instructions",
            "what random keys add",
        ),
        "reply_instructions": (
            [(1 - REQUEST_SHARE) * c.request_instructions for c in rows],
            "instructions",
            "the rest of what is done per request",
        ),
        "byte_instructions": ([c.byte_instructions for c in rows], "1/B", "64 against 1024 bytes"),
    }
    return {
        key: Quantity(
            value=_rounded(statistics.mean(values)),
            unit=unit,
            kind="measured",
            source="tool-counts",
            method=f"counted in valgrind, {how}; mean over versions",
            low=_rounded(min(values)),
            high=_rounded(max(values)),
        )
        for key, (values, unit, how) in found.items()
    }


def _scales(found: list[dict[str, Any]]) -> dict[str, Quantity]:
    """Geometric means over tools and hosts; the range is that of another tool and host."""
    leaves = {}
    for key, factor, what in (
        ("user_scale", "user", "instructions at the host's speed"),
        ("kernel_scale", "kernel", "the host's system calls"),
    ):
        logs = [math.log(each[factor]["value"]) for each in found]
        own = statistics.mean(each[factor]["error"] for each in found)
        half = 1.96 * math.hypot(statistics.stdev(logs) if len(logs) > 1 else own, own)
        value = math.exp(statistics.mean(logs))
        leaves[key] = Quantity(
            value=_rounded(value),
            unit="1",
            kind="fitted",
            source="tool-counts",
            method=f"CPU time against {what}, {len(found)} runs of tools on hosts",
            low=_rounded(value * math.exp(-half)),
            high=_rounded(value * math.exp(half)),
        )
    return leaves


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
