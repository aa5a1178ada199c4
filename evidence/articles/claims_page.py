"""The page about a vendor's claims, from the numbers `claims` left."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..harness import Files
from ..markdown import table
from .claims import ARTEFACT
from .yardstick import RULE, error_of, holds

ARTICLES = {
    "71": "https://aws.amazon.com/blogs/database/"
    "achieve-over-500-million-requests-per-second-per-cluster-with-amazon-elasticache-for-redis-7-1/",
    "70": "https://aws.amazon.com/blogs/database/"
    "enhanced-io-multiplexing-for-amazon-elasticache-for-redis/",
}
"""Where the claims were made: of 7.1 (read in a Chinese copy), and of 7.0."""

NO_GAIN = 0.15
"""A change of less than that either way is taken for none."""


@dataclass(frozen=True)
class Claim:
    """What an article says, what the model says, and whether they agree.

    Attributes
    ----------
    predicted
        Value and interval, as text.
    gap
        Predicted less claimed, as text; empty where there is nothing to compare.
    error
        As `yardstick.error_of` has it.
    """

    statement: str
    claimed: str
    predicted: str
    gap: str
    error: float

    @property
    def met(self) -> bool:
        """Whether it holds, by the rule of all pages."""
        return holds(self.error)


def claims(study: Mapping[str, Any]) -> list[Claim]:
    """Every claim of the article with its prediction under the assumed threads."""
    rows = {row["size"]: row["assumed"] for row in study["sizes"]}
    large = {size: row for size, row in rows.items() if size != "xlarge"}
    burst = {row["size"]: row["burst"] for row in study["sizes"] if row["size"] in large}
    most = {size: row for size, row in large.items() if size != "2xlarge"}
    found = []
    for words, instances in (("", large), (", burst bandwidth", burst)):
        found += [
            _worst(instances, "throughput", "at least +100%", 1.0, words),
            _worst(instances, "p99", "at least −50%", -0.5, words),
        ]
    rps = min(row["7.1"]["throughput_rps"]["value"] for row in most.values())
    found.append(
        Claim(
            "7.1, r7g.4xlarge and larger: requests a second",
            "more than 1 M",
            f"{rps / 1e6:.2f} M and more",
            _signed(f"{rps / 1e6 - 1.0:+.2f} M"),
            error_of(rps / 1e6, low=1.0, high=None),
        )
    )
    slowest = max(row["7.1"]["p99_ms"]["value"] for row in large.values())
    found.append(
        Claim(
            "7.1: p99 at that load",
            "below 1 ms",
            f"up to {slowest:.2f} ms",
            _signed(f"{slowest - 1.0:+.2f} ms"),
            error_of(slowest, low=None, high=1.0),
        )
    )
    if "xlarge" in rows:
        gain = rows["xlarge"]["7.1 against 7.0"]["throughput"]
        found.append(
            Claim(
                "7.1 against 7.0, r7g.xlarge (four cores): throughput",
                "no gain",
                _with_interval(gain),
                _points(gain["value"]),
                error_of(gain["value"], low=-NO_GAIN, high=NO_GAIN),
            )
        )
    for entry in study["look_up"]:
        change = entry["change"]
        drawn = "as drawn in the article" if entry["keys"] == 3 else "as the model meets them"
        found.append(
            Claim(
                f"time of a hash find, {entry['keys']} keys together ({drawn})",
                "up to −60%",
                _with_interval(change),
                _points(change["value"] + 0.6),
                error_of(change["value"], low=-0.6, high=-0.6),
            )
        )
    for version in ("7.0", "7.1"):
        found += [
            _typical(large, version, "throughput", 0.28),
            _typical(large, version, "p99", -0.21),
        ]
    return found


def _worst(rows: Mapping[str, Any], metric: str, claimed: str, least: float, words: str) -> Claim:
    """What holds on every size, so its worst one counts."""
    changes = {size: row["7.1 against 7.0"][metric] for size, row in rows.items()}
    sign = 1.0 if least > 0 else -1.0
    size = min(changes, key=lambda name: sign * changes[name]["value"])
    worst = changes[size]
    holding = sum(sign * change["value"] >= sign * least for change in changes.values())
    return Claim(
        f"7.1 against 7.0, r7g.2xlarge to 16xlarge{words}: {metric}",
        claimed,
        f"{_with_interval(worst)} on {size}, the worst; {holding} of {len(changes)} sizes hold",
        _points(worst["value"] - least),
        error_of(
            worst["value"],
            low=least if least > 0 else None,
            high=None if least > 0 else least,
        ),
    )


def _typical(rows: Mapping[str, Any], version: str, metric: str, claimed: float) -> Claim:
    """A claim about a family of instances: the median over sizes counts."""
    sizes = [row["graviton3 against graviton2"][version][metric]["value"] for row in rows.values()]
    typical = statistics.median(sizes)
    return Claim(
        f"r7g against r6g, engine {version}: {metric}",
        f"up to {_percent(claimed)}",
        f"{_percent(typical)} ({_percent(min(sizes))} to {_percent(max(sizes))} by size)",
        _points(typical - claimed),
        error_of(typical, low=claimed, high=claimed),
    )


def page(study: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    workload = study["workload"]
    found = claims(study)
    met = sum(claim.met for claim in found)
    lines = [
        "# Claims about ElastiCache for Redis",
        "",
        "Generated by `make evidence STUDY=claims`; nothing here is typed by hand, and"
        " nothing was fitted to it. The engines' work is that of Redis 7.0 as observed on another"
        " machine, the hosts are the catalogue's, and the unpublished rules of the threads are"
        " assumed ([models.md](models.md#the-node)).",
        "",
        f"Amazon's article on 7.1 ([Hoter and Touitou, 2023]({ARTICLES['71']})) drives"
        f" {workload['clients']} clients, 80% GET and 20% SET,"
        f" {workload['keys'] / 1e6:g} million keys of {workload['key_bytes']} B with values of"
        f" {workload['value_bytes']} B, by redis-benchmark. It gives no absolute numbers but one,"
        " and does not say how many threads an instance runs: assumed is what redis.conf advises,"
        " and a second choice below shows what depends on it."
        " What this page says of it was read in a Chinese copy, not in the linked English text.",
        "",
        f"{met} of {len(found)} hold. A claim of the form “up to” doesn't say on which size or"
        " workload its largest value was seen. Where it is about a family of instances, the median"
        " over sizes is compared with it, not the largest prediction, which a limit of one size"
        f" alone may decide (the network's, say). {RULE} [articles.md](articles.md) goes by the"
        " same."
        " Intervals are 95%, of the uncertain numbers that both sides have in common.",
        "",
        *table(
            ["claim", ">claimed", ">predicted", ">gap", ">error", ""],
            [
                [
                    *(claim.statement, claim.claimed, claim.predicted, claim.gap),
                    _told(claim.error),
                    "holds" if claim.met else "**misses**",
                ]
                for claim in found
            ],
        ),
        "",
        "Not predicted: +72% throughput and −71% p99 of 7.0 against ElastiCache for Redis 6 on"
        f" r6g.xlarge with 5,200 clients ([Hoter and Shacham, 2023]({ARTICLES['70']})). What the"
        " threads of that engine do is not published. Nor is TLS, for which the article claims the"
        " same gain.",
        "",
        "## By instance",
        "",
        *table(
            ["r7g", ">io-threads", ">Gbit/s", ">7.0, requests/s", ">7.1, requests/s", ">change"]
            + [">p99, ms", ">change", "limits 7.0", "limits 7.1"],
            [cells for row in study["sizes"] for cells in _rows(row)],
        ),
        "",
        f"On the largest instance 7.1 looks up {study['keys_per_batch']:.1f} keys together on"
        " average. An instance has its baseline bandwidth always and its burst bandwidth for some"
        " minutes; the article doesn't say how long it measured. A network is also limited by its"
        " packets, for which only a lower bound is known.",
    ]
    return "\n".join(lines) + "\n"


def _told(error: float) -> str:
    return "–" if error == 0.0 else _percent(error)


def _rows(row: Mapping[str, Any]) -> list[list[str]]:
    """The assumed and the second choice of threads, and the burst bandwidth if there is one."""
    variants = ["assumed", "second"]
    if row["burst"]["bandwidth_gbit_per_s"] != row["assumed"]["bandwidth_gbit_per_s"]:
        variants.append("burst")
    return [_row(row["size"], row[variant]) for variant in variants]


def _row(size: str, row: Mapping[str, Any]) -> list[str]:
    old, new, change = row["7.0"], row["7.1"], row["7.1 against 7.0"]
    rates = [_rate(point["throughput_rps"]) for point in (old, new)]
    p99 = f"{old['p99_ms']['value']:.2f} → {new['p99_ms']['value']:.2f}"
    return [
        *(size, str(row["io_threads"]), f"{row['bandwidth_gbit_per_s']:g}", *rates),
        *(_with_interval(change["throughput"]), p99),
        *(_with_interval(change["p99"]), _limit(old), _limit(new)),
    ]


def _limit(point: Mapping[str, Any]) -> str:
    """What is saturated, or nearest to it."""
    if point["bottleneck"] != "none":
        return str(point["bottleneck"])
    name = max(point["utilisation"], key=point["utilisation"].__getitem__)
    return f"none ({name} {point['utilisation'][name]:.0%})"


def _rate(estimate: Mapping[str, float]) -> str:
    low, high = estimate["low"] / 1e6, estimate["high"] / 1e6
    return f"{estimate['value'] / 1e6:.2f} M ({low:.2f}–{high:.2f})"


def _with_interval(change: Mapping[str, float]) -> str:
    low, high = _percent(change["low"]), _percent(change["high"])
    return f"{_percent(change['value'])} ({low} to {high})"


def _percent(change: float) -> str:
    return _signed(f"{change:+.0%}")


def _points(change: float) -> str:
    """Percentage points."""
    return _signed(f"{change * 100:+.0f} points")


def _signed(text: str) -> str:
    return text.replace("-", "−")


def pages() -> Files:
    """The page, from the artefact."""
    return {Path("docs/claims.md"): page(json.loads(ARTEFACT.read_text(encoding="utf-8")))}
