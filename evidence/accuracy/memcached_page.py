"""The section on Memcached of the accuracy page, from `docs/accuracy/memcached.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..markdown import table


def memcached_section(out: Path) -> list[str]:
    """Lines of the section; none where nothing was measured."""
    path = out / "memcached.json"
    if not path.exists():
        return []
    report = json.loads(path.read_text(encoding="utf-8"))
    checks = report["checks"]
    lines = [
        "## Hit rate of Memcached after a change",
        "",
        f"Measured on {report['date']} with `make evidence STUDY=memcached`, on"
        f" memcached {checks[0]['version']}: a client asks for keys by Zipf's law and stores what"
        " it missed; after some seconds its list of nodes changes, or a node restarts. Nothing is"
        " fitted. Hit rates in percent, measured → predicted; points are percentage points.",
        "",
        *table(
            ["what changes", ">keys that move", ">before", ">1st second after", ">2nd", ">5th"]
            + [">10th", ">worst second off by"],
            [_row(check) for check in checks],
        ),
        "",
        *_settings(checks),
    ]
    limited = [check for check in checks if check["check"]["memory_mib"] is not None]
    for check in limited:
        held = zip(check["measured_keys_held"], check["predicted_keys_held"], strict=True)
        lines += [
            "",
            f"Where memory is short ({check['check']['memory_mib']} MiB a node), at the end the"
            " nodes held, measured → predicted keys: "
            + ", ".join(f"{measured:,} → {predicted:,}" for measured, predicted in held)
            + ".",
        ]
    return lines


def _row(report: dict[str, Any]) -> list[str]:
    check = report["check"]
    change = check["change_s"]
    shares = list(zip(report["measured_hit_share"], report["predicted_hit_share"], strict=True))
    shown = [_percent(*shares[second]) for second in (change - 1, *_after(change))]
    restart = check["before"] == check["after"]
    moved = (
        "–" if restart else _percent(report["measured_keys_moved"], report["predicted_keys_moved"])
    )
    worst = f"{100 * report['worst_difference']:.1f} points"
    return [check["name"], moved, *shown, worst]


def _after(change: int) -> list[int]:
    """The seconds after the change that are shown, counted from 0."""
    return [change + second - 1 for second in (1, 2, 5, 10)]


def _percent(measured: float, predicted: float) -> str:
    return f"{100 * measured:.1f} → {100 * predicted:.1f}"


def _settings(checks: list[dict[str, Any]]) -> list[str]:
    first = checks[0]["check"]
    return [
        f"{first['rate_rps']:,.0f} requests/s; {first['keys']:,} keys"
        + "".join(
            f" ({other['check']['keys']:,} in {other['check']['name']!r})"
            for other in checks
            if other["check"]["keys"] != first["keys"]
        )
        + f" with Zipf's exponent {first['zipf']} and values of {first['value_bytes']} B."
    ]
