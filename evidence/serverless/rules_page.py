"""What published tests of a closed service say together about its rules: part of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from forecache.models.over_time.serverless.hops import hop
from forecache.models.over_time.serverless.versions import load_version

from ..articles.yardstick import NEAR, error_of
from .search import PUBLISHED, misses

CHOSEN = frozenset(
    {
        *("7.2 until_min", "7.2 between_min", "7.2 p50_ms", "7.2 highest_p99_ms"),
        *("8.0 until_min", "8.0 between_min", "8.0 highest_p99_ms"),
        *("cold highest_ms", "cold back_min"),
    }
)
"""Numbers that were in view when the rules were chosen, so that they are inputs."""

_TARGET_RPS = 5e6
_COLD_CONNECTIONS = 200


def rules_section(data: Mapping[str, Any], searched: Mapping[str, Any] | None) -> list[str]:
    """Lines in Markdown.

    Parameters
    ----------
    data
        What `study.study` returns.
    searched
        What the study `serverless-rules` left, if it did.
    """
    numbers = _numbers(data)
    lines = [
        "## One set of rules for all tests",
        "",
        "The service is closed: how much of a shard its proxies let through, how long it looks and"
        " provisions, how its operator paces MIGRATE, and how whoever drove the ramps paced them is"
        " not published. `make evidence STUDY=serverless-rules` draws sets of these"
        " rules from what is assumed of each and holds every set against all published numbers"
        " together. The adopted set was found by hand, from what such draws missed. Numbers that"
        " were in view then are inputs, marked *chosen*; the others were not, but had been seen.",
        "",
        "| test and number | published | with these rules | error | |",
        "|---|--:|--:|--:|---|",
    ]
    for name, value in numbers.items():
        low, high = PUBLISHED[name]
        off = math.inf if value is None else error_of(value, low=low, high=high)
        told = "within" if off == 0.0 else f"{off:+.1%}"
        shown = "–" if value is None else f"{value:.4g}"
        words = "chosen" if name in CHOSEN else ""
        if abs(off) > NEAR:
            words = f"{words}, **misses**".removeprefix(", ")
        lines.append(f"| {name} | {_range(low, high)} | {shown} | {told} | {words} |")
    missed = misses(numbers)
    lines += [
        "",
        f"{len(numbers) - len(missed)} of {len(numbers)} lie within {NEAR:.0%}.",
        *_searched(searched),
        "",
        "What the rules are:",
        "",
        "- Proxies let through a share of what a shard can do (`let_through`): slots have to be"
        " able to move meanwhile, for which the guide wants less than 50% of a single core and less"
        " than 80% of several. What is more waits at the proxies; nothing is refused before the"
        " clients' time-out.",
        "- An operator that moves slots key by key pauses, so that MIGRATE takes no more of a main"
        " thread than proxies leave (`most_blocked`). Without that a source falls behind at once"
        " and thousands of requests wait for it.",
        "- Whoever drives a ramp goes on until requests wait, which he sees when he looks"
        " (`ramp_look_s`), and then falls back (`ramp_back`). What waits until then is half of"
        " `ramp_growth` times the square of the time since the limit was reached: milliseconds, of"
        " both versions alike.",
        "- The first limit of an empty cache holds until the first look and a core; a shard's own"
        " limit holds until a scale-out is over.",
        "",
        "### Which published facts exclude each other",
        "",
        *_exclusions(),
    ]
    return lines


def _numbers(data: Mapping[str, Any]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    tests = {"cold": data["tests"]["default"], "doublings": data["tests"]["doublings"]}
    for name in PUBLISHED:
        test, number = name.split(" ")
        found[name] = (data["ramps"] | tests)[test][number]
    return found


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return f"below {high:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _searched(searched: Mapping[str, Any] | None) -> list[str]:
    if searched is None:
        return []
    sets = searched["sets"]
    fewest = min(len(row["misses"]) for row in sets)
    often = {name: sum(name in row["misses"] for row in sets) for name in PUBLISHED}
    always = [name for name, count in often.items() if count == len(sets)]
    words = f" Missed by every set: {', '.join(always)}." if always else ""
    return [
        "",
        f"Of {len(sets)} sets drawn from everything that is assumed (a Latin hypercube over the"
        f" ranges below) none misses fewer than {fewest} numbers; the long tests were left out for"
        f" those that missed more than two of the short ones.{words}",
    ]


def _exclusions() -> list[str]:
    """Arguments that need no simulation, with their numbers."""
    mechanisms = load_version("7.2").mechanisms()
    first = mechanisms.first_ecpu_per_s
    way = hop(mechanisms)
    client_ms = 3.0 + way.mean_ms
    doublings = math.log2(_TARGET_RPS / first)
    order = sorted(zip(way.rtts_ms, way.shares, strict=True))
    total, nearest = 0.0, 0.0
    for rtt, share in order:
        total, nearest = total + share, float(rtt)
        if total >= 0.5:
            break
    return [
        f"- **{first:,.0f} ECPU/s of an empty cache, and 3 ms under {_COLD_CONNECTIONS}"
        f" connections** (A067, A068). By Little's law {_COLD_CONNECTIONS} connections that get no"
        f" more than that wait {_COLD_CONNECTIONS / first * 1e3:.1f} ms; 3 ms at the proxies are"
        f" {_COLD_CONNECTIONS / client_ms:.0f},000 requests a second. Both hold only if the limit"
        " is lifted within the first minute, which the metrics average.",
        f"- **An empty cache, a doubling every 10 to 12 minutes, and 50 minutes** (A067, A001,"
        f" A003). From {first:,.0f} to five million a second are {doublings:.1f} doublings, which"
        f" take {10 * doublings:.0f} minutes and more. Even if the first limit gives way to a whole"
        " shard at once, six scale-outs remain, an hour. The published table counts from an unnamed"
        " baseline; it would have to be 156,000 a second. The rules take the middle: scale-outs"
        " somewhat shorter, the ramp somewhat longer than published.",
        "- **10 minutes until a cold cache is back, and 50 minutes of a ramp** (A068, A003), where"
        " keys take the time. The cold cache moves half of what was written in its first minutes,"
        " in values of 100 B; a ramp six times half of all keys, in values of 512 B. Both fit only"
        " with long provisioning, small MIGRATEs and fewer keys in the ramp than in the test.",
        f"- **A p50 below 0.8 ms, and the round trips between zones** (A003, A004). Half of all"
        f" requests have a way of {nearest:.2f} ms or more between proxy and primary alone, if both"
        " are in any of three zones as far apart as the pairs of us-east-1 were in 2019 on average."
        " Either the test's zones lie closer, or proxies prefer their own. Means do agree.",
        "- **A rise of 0.2 ms behind each doubling** (A065) fits none of the sets that the other"
        " numbers lead to. In closed loops a limit that lets a share of what is wanted through adds"
        " its reciprocal less 1, times 1.4 ms: 0.2 ms want a share of 0.88 after each of three"
        " doublings. A cache that has scaled out lets everything through, one that has not, half,"
        " which is 1.4 ms. What MIGRATE adds to requests that it blocks is not modelled (blocks of"
        " 2 ms at one shard of 8 to 32: some 0.05 ms).",
        "- **A p99 of several ms by the minute, and slots that change hands** (A003, A004). A slot"
        " changes hands once a scale-out; if all its requests waited for 8 ms then, that would be"
        " one in 15,000 of a minute's. A hundredth of a minute's requests wait only where load"
        " stays above a limit for more than half a second in it: the ramp itself, not the moves.",
    ]
