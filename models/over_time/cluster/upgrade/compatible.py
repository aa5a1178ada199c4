"""Whether a version reads what another one writes: the format of RDB files, which full syncs use.

rdb.h of each version: 9 up to Redis 6.2, 10 in 7.0, 11 in 7.2 and in Valkey up to 8.1, 12 and later
from Redis 7.4 on, 80 from Valkey 9.0 on. A server reads its own format and earlier ones. Valkey
refuses 12 to 79, which are those of Redis alone (`rdb-version-check strict`, its default).
"""

from __future__ import annotations

from ....engines.profile import EngineProfile
from ....scenario.versions import version_numbers

_FORMATS = {
    "redis": (((7, 4), 12), ((7, 2), 11), ((7, 0), 10), ((0, 0), 9)),
    "valkey": (((9, 0), 80), ((0, 0), 11)),
}
_COMMON = 11
"""The last one that both have."""


def unreadable(old: EngineProfile, new: EngineProfile) -> str | None:
    """Why a node of the new version can't get the data of one of the old; None if it can."""
    wrote, reads = _format(old), _format(new)
    if family(old) != family(new):
        fits = wrote <= _COMMON and reads >= wrote
    else:
        # From Redis 7.4 on formats differ between versions that are not told apart here.
        later = family(old) == "redis" and wrote > _COMMON
        fits = reads >= wrote and not (later and _version(new) < _version(old))
    if fits:
        return None
    return (
        f"{new.engine} {new.version} doesn't read the format that {old.engine} {old.version} writes"
    )


def family(engine: EngineProfile) -> str:
    """Whose files it reads and writes."""
    return "valkey" if engine.engine.endswith("valkey") else "redis"


def _version(engine: EngineProfile) -> tuple[int, ...]:
    return tuple(version_numbers(engine.version or "0"))[:2]


def _format(engine: EngineProfile) -> int:
    known = _FORMATS[family(engine)]
    return next(number for since, number in known if _version(engine) >= since)


def diskless(engine: EngineProfile) -> bool:
    """`repl-diskless-sync`, as the version has it: yes from Redis 7.0 and in every Valkey."""
    return family(engine) == "valkey" or _version(engine) >= (7, 0)


def backlog_bytes(engine: EngineProfile) -> int:
    """`repl-backlog-size`, as the version has it: 10 MiB from Valkey 8.0 on, else 1 MiB."""
    return (10 if family(engine) == "valkey" and _version(engine) >= (8, 0) else 1) << 20
