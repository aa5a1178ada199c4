"""The ceiling of today's nodes in the text format of Prometheus, for alerts on headroom.

Format 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats): a line of HELP and one of TYPE
before the samples of a metric, labels in quotes, a line feed at the end of the last line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forecache.models.plan.results import CapacityLimit

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True)
class Exported:
    """A gauge with its samples: labels and value of each."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, str], float]]


def exposition(metrics: Sequence[Exported]) -> str:
    """The text of some gauges."""
    lines: list[str] = []
    for metric in metrics:
        if not _NAME.fullmatch(metric.name):
            raise ValueError(f"no name of a metric: {metric.name!r}")
        lines += [
            f"# HELP {metric.name} {_escaped(metric.help)}",
            f"# TYPE {metric.name} gauge",
            *(f"{metric.name}{_labels(labels)} {value!r}" for labels, value in metric.samples),
        ]
    return "".join(f"{line}\n" for line in lines)


def ceiling_text(ceiling: CapacityLimit) -> str:
    """What is exported of a ceiling."""
    common = {
        "host": ceiling.host,
        "engine": ceiling.engine,
        "version": ceiling.engine_version,
        "io_threads": str(ceiling.io_threads),
    }
    rps = ceiling.ceiling_rps
    nodes = ceiling.nodes
    return exposition(
        [
            Exported(
                "forecache_ceiling_operations_per_second",
                "Load of one node that meets the objective: bound low and high are the ends of the "
                "95% interval.",
                [
                    ({**common, "bound": "low"}, rps.low),
                    ({**common, "bound": "best"}, rps.value),
                    ({**common, "bound": "high"}, rps.high),
                ],
            ),
            Exported(
                "forecache_ceiling_objective_seconds",
                "Latency that must not be exceeded, by quantile.",
                [
                    ({**common, "quantile": _QUANTILES[name]}, bound / 1e3)
                    for name, bound in ceiling.objective.items()
                ],
            ),
            Exported(
                "forecache_node_operations_per_second",
                "Load of a node at the busiest moment that is known.",
                [({"node": each.name}, each.rate_rps) for each in nodes],
            ),
            Exported(
                "forecache_node_headroom_ratio",
                "Share of the ceiling that is left to a node; below 0 beyond it.",
                [({"node": each.name}, each.headroom) for each in nodes],
            ),
        ]
    )


_QUANTILES = {"p50_ms": "0.5", "p99_ms": "0.99", "p999_ms": "0.999"}


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    for name in labels:
        if not _LABEL.fullmatch(name):
            raise ValueError(f"no name of a label: {name!r}")
    pairs = (f'{name}="{_escaped(text, quotes=True)}"' for name, text in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
