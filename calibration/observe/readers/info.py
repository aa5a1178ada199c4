"""Fields of the text of INFO, of Redis 5 to 8 and Valkey 7.2 to 9, and of Memcached's stats."""

from collections.abc import Mapping

from ...bundle.bundle import Engine


def info_fields(text: str) -> Mapping[str, str]:
    """The `name:value` lines of an INFO text; headings and blank lines are skipped."""
    pairs = (line.split(":", 1) for line in text.splitlines() if line and line[0] != "#")
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def info_number(fields: Mapping[str, str], name: str) -> float | None:
    """A number of INFO, or None when this version doesn't report it: absence is not zero."""
    try:
        return float(fields[name])
    except (KeyError, ValueError):
        return None


def difference(before: Mapping[str, str], after: Mapping[str, str], name: str) -> float | None:
    """Change of a counter of INFO, or None when this version doesn't report it."""
    first, last = info_number(before, name), info_number(after, name)
    return None if first is None or last is None else last - first


def engine_of(fields: Mapping[str, str]) -> tuple[str, str]:
    """Name and version of the engine that answered."""
    for name in ("valkey", "redis"):
        if f"{name}_version" in fields:
            return name, fields[f"{name}_version"]
    # Only Memcached's stats have a version that names no engine.
    return ("memcached", fields["version"]) if "version" in fields else ("redis", "unknown")


def engine_record(fields: Mapping[str, str], *, path: str, sha256: str) -> Engine:
    """What a bundle says of the engine that answered, a server program at `path`."""
    name, version = engine_of(fields)
    libevent = fields.get("libevent")
    return Engine(
        name=name,
        version=version,
        path=path,
        sha256=sha256,
        build=fields.get("redis_build_id", None if libevent is None else f"libevent {libevent}"),
        allocator=fields.get("mem_allocator", "slabs" if name == "memcached" else None),
        compiler=fields.get("gcc_version"),
    )


def commands_served(fields: Mapping[str, str]) -> float | None:
    """Commands since the start; of Memcached, those that get and set."""
    total = info_number(fields, "total_commands_processed")
    gets, sets = info_number(fields, "cmd_get"), info_number(fields, "cmd_set")
    return total if gets is None or sets is None else gets + sets


def memory_used(fields: Mapping[str, str]) -> int | None:
    """Bytes in use; of Memcached, those of its items."""
    used = info_number(fields, "used_memory")
    used = info_number(fields, "bytes") if used is None else used
    return None if used is None else int(used)
