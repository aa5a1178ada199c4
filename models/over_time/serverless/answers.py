"""What a run of a serverless cache answers besides its series."""

from __future__ import annotations

import math

import numpy as np

from ...prices.table import HOURS_A_MONTH
from ...results.series import Fact, Run, Table
from .hops import hop
from .metering import Meter
from .scaling import Shards
from .versions import Mechanisms

Series = dict[tuple[str, str], np.ndarray]


def series_of(run: Run) -> Series:
    """Series by panel and name."""
    return {(each.panel, each.name): each.values for each in run.series}


def ramp_facts(
    run: Run, shards: Shards, *, to_rps: float, until_s: float | None, first_rps: float | None
) -> list[Fact]:
    """How long a ramp took, and how long for twice the rate.

    Scale-outs count until the ramp has ended. `first_rps` is what an empty cache serves at once,
    None for one that isn't empty.
    """
    name = f"until {to_rps:,.0f} requests a second"
    if until_s is None:
        most = float(series_of(run)["throughput", "answered"].max(initial=0.0))
        return [Fact(name, None, "s", f"not reached; {most:,.0f} were")]
    begun = [growth.begun_s for growth in shards.growths if growth.begun_s <= until_s]
    between_s = (begun[-1] - begun[0]) / (len(begun) - 1) if len(begun) > 1 else None
    facts = [Fact(name, until_s, "s", "the first step that answered that rate")]
    if first_rps is not None and to_rps > first_rps:
        facts.append(
            Fact(
                "mean time of a doubling",
                until_s / math.log2(to_rps / first_rps),
                "s",
                f"from the {first_rps:,.0f} of an empty cache on",
            )
        )
    return [
        *facts,
        Fact(
            "from scale-out to scale-out",
            between_s,
            "s",
            f"the mean of {len(begun) - 1}" if len(begun) > 1 else "there was no second one",
        ),
    ]


def latency_facts(run: Run, mechanisms: Mechanisms, *, own_ms: float) -> list[Fact]:
    """Latency over the run, at the proxies and at the clients."""
    series = series_of(run)
    p50, p99 = series["latency", "p50"], series["latency", "p99"]
    mean, answered = series["latency", "mean"], series["throughput", "answered"]
    if not np.isfinite(mean).any():
        return []
    there = np.isfinite(mean)
    weighted = float((mean[there] @ answered[there]) / answered[there].sum())
    tenth = max(1, int(there.sum()) // 10)
    end = mean[there][-tenth:]
    busiest = np.nanargmax(answered)
    beside_ms = hop(mechanisms).mean_ms + own_ms
    return [
        Fact("mean latency", weighted, "ms", "at the proxies, as the service measures it"),
        Fact("mean latency at the end", float(end.mean()), "ms", "the last tenth, likewise"),
        Fact("mean latency of clients at the end", float(end.mean()) + beside_ms, "ms"),
        Fact("highest p50", float(np.nanmax(p50)), "ms", "of an interval, at the proxies"),
        Fact("median p50", float(np.nanmedian(p50)), "ms", "of the intervals, likewise"),
        Fact("highest p99", float(np.nanmax(p99)), "ms", "of an interval, likewise"),
        Fact("p99 at the highest rate", float(p99[busiest]), "ms", "likewise"),
    ]


def bill_facts(meter: Meter, *, duration_s: float, requests: float) -> list[Fact]:
    """What the run cost, and a month of it."""
    usd = meter.requests_usd + meter.data_usd
    months = duration_s / 3600.0 / HOURS_A_MONTH
    idle = meter.billed_ecpu > meter.ecpu * (1.0 + 1e-6)
    note = f"{meter.billed_ecpu / 1e6:,.0f} M are billed: they were kept ready" if idle else ""
    return [
        Fact("ECPU", meter.ecpu, "ECPU", note),
        Fact("cost of the run", usd, "USD", f"{meter.data_usd:.2f} of it for data"),
        Fact("cost of a month like it", usd / months, "USD"),
        Fact("cost of a million requests", usd / max(requests, 1.0) * 1e6, "USD"),
    ]


def growth_table(shards: Shards, mechanisms: Mechanisms) -> list[Table]:
    """Scale-outs with their parts."""
    rows = [
        [
            growth.begun_s,
            growth.shards,
            mechanisms.detect_s,
            growth.provisioned_s - growth.begun_s,
            growth.moved_s - growth.provisioned_s,
            growth.keys_moved,
        ]
        for growth in shards.growths
    ]
    columns = [
        *(("at", "s"), ("shards", ""), ("looks", "s"), ("provisioning", "s")),
        *(("slots move", "s"), ("keys moved", "")),
    ]
    return [Table("scale-outs", columns, rows)] if rows else []
