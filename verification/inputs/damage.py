"""Damaging data whose structure is known: the tree of a YAML file, and text with a nasty shape."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import yaml

Path = tuple[str | int, ...]

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 64, 1000, 1e-300, 0.5, -0.0, 1e9, 1e18, 1e308),
    *(float("inf"), float("-inf"), float("nan"), 2**31, 2**53, 2**63 - 1, 2**63, 10**30),
    *("", "x", "é\u2028\U0001f600", "8.1", "1e6", "yes", "/dev/null", "/", "x" * 5000, "\0"),
    *("2026-13-01", "{}", [], {}, [[]], [1, 2], {"a": 1}, {"sweep": [1, 2]}, {"sweep": []}),
    *({"sweep": {"a": 1}}, {"sweep": [None, [], {}]}, {"sweep": list(range(300))}),
)

_TEXTS: tuple[str, ...] = (
    "[" * 50_000,
    "{a: " * 3_000,
    "- " * 3_000 + "1",
    "? " * 3_000,
    "a: &a [*a]",
    "k0: &k0 [1, 2]\n" + "".join(f"k{i}: &k{i} [*k{i - 1}, *k{i - 1}]\n" for i in range(1, 40)),
    "a: 0x" + "f" * 9_999,
    "a: " + "9" * 6_000,
    "!!python/object:os.system x",
    "%YAML 9.9\n---\na: 1",
    "a: 1\n---\nb: 2",
    "a: 2026-02-30",
    "\ufeffa: 1",
    "a: 190:20:30.15",
    "<<: {a: 1}",
    "a: !!binary x",
    "a: !!set {x, y}",
    "a: !!omap [1]",
    "",
    "\n",
    "null",
    "- 1",
    "\0",
)


def paths_of(data: Any, path: Path = ()) -> Iterator[Path]:
    """All places of a tree, its root first."""
    yield path
    children: list[tuple[str | int, Any]] = []
    if isinstance(data, dict):
        children = list(data.items())
    elif isinstance(data, list):
        children = list(enumerate(data))
    for key, value in children:
        yield from paths_of(value, (*path, key))


def at(data: Any, path: Path) -> Any:
    """What stands at a place."""
    for part in path:
        data = data[part]
    return data


def put(data: Any, path: Path, value: Any) -> Any:
    """The tree with another value at a place."""
    if not path:
        return value
    if isinstance(data, list):
        place = int(path[0])
        return [*data[:place], put(data[place], path[1:], value), *data[place + 1 :]]
    return {**data, path[0]: put(data[path[0]], path[1:], value)}


def damaged_tree(data: Any, draw: random.Random) -> Any:
    """A tree with one to three changes."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice(_CHANGES)(data, draw)
    return data


def damaged_text(text: str, draw: random.Random) -> str:
    """Text that nests, repeats or spells what a reader may trip over, alone or within a file."""
    nasty = draw.choice(_TEXTS)
    if draw.random() < 0.5:
        return nasty
    lines = text.split("\n")
    lines.insert(draw.randrange(len(lines) + 1), nasty)
    return "\n".join(lines)


def as_yaml(data: Any) -> str:
    """YAML text of a damaged tree."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def _somewhere(data: Any, draw: random.Random) -> Path:
    """A place, the leaves more often than what holds them."""
    paths = list(paths_of(data))
    leaves = [path for path in paths if not isinstance(at(data, path), dict | list)]
    return draw.choice(leaves if leaves and draw.random() < 0.7 else paths)


def _replace(data: Any, draw: random.Random) -> Any:
    return put(data, _somewhere(data, draw), draw.choice(_VALUES))


def _scale(data: Any, draw: random.Random) -> Any:
    """Another size of a number: the likeliest to stay valid."""
    numbers = [path for path in paths_of(data) if type(at(data, path)) in (int, float)]
    if not numbers:
        return _replace(data, draw)
    path = draw.choice(numbers)
    value = at(data, path)
    factor = draw.choice((-1, 0.01, 0.1, 0.5, 2, 3, 10, 100, 1e4, 1e6, 1e9))
    scaled = value * factor
    whole = isinstance(value, int) and abs(scaled) < 1e18
    return put(data, path, round(scaled) if whole else float(scaled))


def _remove(data: Any, draw: random.Random) -> Any:
    path = _somewhere(data, draw)
    if not path:
        return data
    holder = at(data, path[:-1])
    if isinstance(holder, list):
        left: Any = [v for index, v in enumerate(holder) if index != path[-1]]
    else:
        left = {k: v for k, v in holder.items() if k != path[-1]}
    return put(data, path[:-1], left)


def _add(data: Any, draw: random.Random) -> Any:
    path = _somewhere(data, draw)
    holder = at(data, path)
    if isinstance(holder, dict):
        key = draw.choice(("extra", "sweep", "kind", 3, None, "é", *list(holder)[:2]))
        return put(data, path, {**holder, key: draw.choice(_VALUES)})
    if isinstance(holder, list):
        return put(data, path, [*holder, *(draw.choice((1, 2, 400)) * [draw.choice(_VALUES)])])
    return put(data, path, {"sweep": [holder, draw.choice(_VALUES)]})


def _wrap(data: Any, draw: random.Random) -> Any:
    path = _somewhere(data, draw)
    value = at(data, path)
    for _ in range(draw.choice((1, 1, 2, 40, 70))):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return put(data, path, value)


def _swap(data: Any, draw: random.Random) -> Any:
    one, other = _somewhere(data, draw), _somewhere(data, draw)
    if one[: len(other)] == other or other[: len(one)] == one:
        return data
    a, b = at(data, one), at(data, other)
    return put(put(data, one, b), other, a)


def _rename(data: Any, draw: random.Random) -> Any:
    holders = [p for p in paths_of(data) if isinstance(at(data, p), dict) and at(data, p)]
    if not holders:
        return data
    path = draw.choice(holders)
    holder = at(data, path)
    old = draw.choice(list(holder))
    renamed = {(f"{k}x" if k == old else k): v for k, v in holder.items()}
    return put(data, path, renamed)


_CHANGES: tuple[Callable[[Any, random.Random], Any], ...] = (
    *(_replace, _replace, _replace, _scale, _scale, _scale),
    *(_remove, _add, _wrap, _swap, _rename),
)
