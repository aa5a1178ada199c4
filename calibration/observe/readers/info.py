"""Fields of the text of INFO, of Redis 5 to 8 and Valkey 7.2 to 9."""

from collections.abc import Mapping


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
