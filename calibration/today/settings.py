"""Settings of a node that a plan has to know: threads, encryption, what is kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .nodes import TodaysNode

FSYNC_MS = 1.0
"""Of an fsync with appendfsync always, where nothing tells it (assumed)."""

_LEAST_CHILD_S = 0.5
"""INFO tells whole seconds."""


def threads_of(node: TodaysNode, unknown: list[str]) -> int:
    """The setting io-threads; 1 where it isn't known."""
    text = node.config.get("io-threads", "")
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 256:
        return int(text)
    unknown.append("io-threads: CONFIG GET is missing or refused; 1 is taken")
    return 1


def tls_of(node: TodaysNode, unknown: list[str]) -> bool:
    """Whether connections are encrypted, by ports that are open."""
    listeners = [
        text for name, (_, text) in node.last.fields.items() if name.startswith("listener")
    ]
    if node.settings_known:
        encrypted = node.config.get("tls-port", "0") not in ("", "0")
        plain = node.config.get("port", "0") not in ("", "0")
    elif listeners:
        encrypted = any("name=tls" in text for text in listeners)
        plain = any("name=tcp" in text for text in listeners)
    else:
        unknown.append("whether connections are encrypted: none is taken")
        return False
    if encrypted and plain:
        unknown.append("how many connections are encrypted: both ports are open; none is taken")
    return encrypted and not plain


def persistence_of(nodes: Sequence[TodaysNode], unknown: list[str]) -> Any:
    """What nodes keep on disk, as the first does."""
    node, kept = nodes[0], dict[str, Any]()
    last = node.last
    if last.number("aof_enabled") or node.config.get("appendonly") == "yes":
        policy = node.config.get("appendfsync")
        kept["aof"] = "always" if policy == "always" else "everysec"
        if policy == "always":
            kept["fsync_ms"] = FSYNC_MS
            unknown.append(f"how long an fsync takes: {FSYNC_MS:g} ms are taken")
        elif policy != "everysec":
            unknown.append(f"appendfsync {policy or ''}".strip() + ": everysec is taken")
    child_s = last.number("rdb_last_bgsave_time_sec") if _saved(node) else None
    saves = last.number("rdb_saves")
    if node.config.get("save") or child_s is not None:
        if child_s is None:
            unknown.append(
                "how long a snapshot takes: none was made since the start; none is taken"
            )
        elif not saves:
            unknown.append(
                "how often snapshots are made: this version does not count; none is taken"
            )
        else:
            every_s = min(86_400.0, max(1.0, last.time_s / saves))
            kept["snapshot"] = {
                "every_s": every_s,
                "child_s": min(every_s, max(_LEAST_CHILD_S, child_s)),
            }
    return kept or "none"


def _saved(node: TodaysNode) -> bool:
    """Whether a snapshot was made, which takes -1 s until then."""
    field = node.last.text("rdb_last_bgsave_time_sec")
    return field is not None and not field.startswith("-")
