"""What published tests of a closed service say together about its rules: part of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from forecache.models.over_time.serverless.scaling import hop
from forecache.models.over_time.serverless.schema import load_version

from ..articles.yardstick import NEAR, error_of
from ..markdown import table
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
    missed = misses(numbers)
    return [
        "## One set of rules for all tests",
        "",
        "The service is closed. Nobody has published how much of a shard its proxies let through,"
        " how long it takes to look and to provision, how its operator paces MIGRATE, or how the"
        " drivers of the ramps paced them. `make evidence STUDY=serverless-rules` draws sets of"
        " these rules from their assumed ranges and compares every set with all published numbers"
        " together. The adopted set was chosen by hand after seeing what such draws missed."
        " Published numbers that were in view then are inputs, marked *chosen*; the others were"
        " not, but had been seen.",
        "",
        *table(
            ["test and number", ">published", ">with these rules", ">error", ""],
            [_number_row(name, value) for name, value in numbers.items()],
        ),
        "",
        f"{len(numbers) - len(missed)} of {len(numbers)} lie within {NEAR:.0%}.",
        *_searched(searched),
        "",
        "The rules are:",
        "",
        "- Proxies let through a share of a shard's capacity (`let_through`). Slots have to be"
        " able to move meanwhile, for which the guide wants less than 50% of a single core and less"
        " than 80% of several. Further requests wait at the proxies; none is refused before the"
        " clients' time-out.",
        "- An operator that moves slots key by key pauses, so that MIGRATE takes no more of a main"
        " thread than proxies leave (`most_blocked`). Without pauses a source falls behind at once"
        " and thousands of requests wait for it.",
        "- The driver of a ramp goes on until a look (`ramp_look_s`) shows that requests wait, and"
        " then falls back (`ramp_back`). Until then half of"
        " `ramp_growth` times the square of the time since the limit was reached is waiting:"
        " milliseconds, with both versions.",
        "- The first limit of an empty cache holds until the first look and a core; a shard's own"
        " limit holds until a scale-out is over.",
        "",
        "### Which published facts exclude each other",
        "",
        *_exclusions(),
    ]


def _number_row(name: str, value: float | None) -> list[str]:
    low, high = PUBLISHED[name]
    off = math.inf if value is None else error_of(value, low=low, high=high)
    words = "chosen" if name in CHOSEN else ""
    if abs(off) > NEAR:
        words = f"{words}, **misses**".removeprefix(", ")
    return [
        name,
        _range(low, high),
        "–" if value is None else f"{value:.4g}",
        "within" if off == 0.0 else f"{off:+.1%}",
        words,
    ]


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
        f"{len(sets)} sets were drawn from all assumed ranges below (a Latin hypercube). None"
        f" misses fewer than {fewest} numbers. Sets that missed more than two of the short tests"
        " skipped"
        f" the long ones.{words}",
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
        f"- **{first:,.0f} ECPU/s of an empty cache, and 3 ms with {_COLD_CONNECTIONS}"
        f" connections** (A067, A068). By Little's law {_COLD_CONNECTIONS} connections that get no"
        f" more than that wait {_COLD_CONNECTIONS / first * 1e3:.1f} ms; 3 ms at the proxies are"
        f" {_COLD_CONNECTIONS / client_ms:.0f},000 requests a second. Both are true only if the"
        " limit is lifted within the first minute, which the metrics average.",
        f"- **An empty cache, a doubling every 10 to 12 minutes, and 50 minutes** (A067, A001,"
        f" A003). From {first:,.0f} to five million a second are {doublings:.1f} doublings, which"
        f" take {10 * doublings:.0f} minutes and more. Even if the first limit gives way to a whole"
        " shard at once, six scale-outs remain, an hour. The published table counts from an unnamed"
        " baseline, which would have to be 156,000 a second. The rules are a compromise:"
        " scale-outs somewhat shorter, the ramp somewhat longer than published.",
        "- **10 minutes until a cold cache is back, and 50 minutes of a ramp** (A068, A003), where"
        " moving keys takes the time. The cold cache moves half of what was written in its first"
        " minutes, in values of 100 B; a ramp moves half of all keys six times, in values of 512 B."
        " Both fit only with long provisioning, small MIGRATEs and fewer keys in the ramp than in"
        " the test.",
        f"- **A p50 below 0.8 ms, and the round trips between zones** (A003, A004). If proxy and"
        " primary are each in any of three zones as far apart as the pairs of us-east-1 were in"
        f" 2019 on average, half of all requests travel {nearest:.2f} ms or more between them"
        " alone."
        " Either the test's zones are closer, or proxies prefer their own. Means do agree.",
        "- **A rise of 0.2 ms after each doubling** (A065) fits none of the sets that the other"
        " numbers lead to. In closed loops a limit that lets a share of the demand through adds"
        " the reciprocal of the share less 1, times 1.4 ms. 0.2 ms need a share of 0.88 after each"
        " of three doublings. But a cache that has scaled out lets everything through, and one that"
        " has not, half, which adds 1.4 ms. What MIGRATE adds to requests that it blocks is not"
        " modelled (blocks of 2 ms at one shard of 8 to 32: some 0.05 ms).",
        "- **A p99 of several ms by the minute, and slots that change hands** (A003, A004). A slot"
        " changes hands once per scale-out. If all its requests waited for 8 ms then, that would be"
        " one in 15,000 of a minute's. A hundredth of a minute's requests wait only where load"
        " stays above a limit for more than half a second of it: the ramp itself, not the moves.",
    ]
