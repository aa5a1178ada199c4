"""YAML as it is read here: of bounded size and depth, each key once, numbers that can be counted.

The parser of events needs no stack; composing and constructing what they describe does, and an
alias repeats what may be long. So events are counted first.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

MOST_DEPTH = 64
"""Lists and mappings within each other."""

MOST_VALUES = 500_000
"""Values and keys, those that aliases repeat included."""

_LARGEST_INTEGER = 2**63

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _PlainLoader(_Loader):
    """A safe loader that refuses a key given twice, which YAML would drop silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    raise _problem(f"the key {key!r} is given twice", key_node.start_mark)
                seen.add(key)
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return mapping

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        """An integer of 64 bits, which is what a simulation counts with."""
        value = int(self.construct_yaml_int(node))
        if not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
            raise _problem("found an integer beyond 64 bits", node.start_mark)
        return value


# YAML 1.2 has 1e6 for a number; YAML 1.1, which PyYAML reads, wants 1.0e+6.
_PlainLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+\Z"),
    list("-+0123456789"),
)
_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_integer)


def load_yaml(text: str) -> Any:
    """The data of a YAML document.

    Raises
    ------
    yaml.YAMLError, ValueError
        It is not valid, or deeper or larger than is read here.
    """
    _check_shape(text)
    return yaml.load(text, Loader=_PlainLoader)


def _check_shape(text: str) -> None:
    """Refuse what nests too deeply, has too many values, or contains itself."""
    sizes: dict[str, tuple[int, int]] = {}  # of what has an anchor: values, depth
    open_nodes: list[tuple[str | None, int, int]] = []  # anchor, values so far, depth below
    for event in yaml.parse(text, Loader=_Loader):
        mark = event.start_mark
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, 1, 0))
            if len(open_nodes) > MOST_DEPTH:
                raise _problem(f"found more than {MOST_DEPTH} levels of nesting", mark)
            continue
        if isinstance(event, yaml.ScalarEvent):
            anchor, values, depth = event.anchor, 1, 0
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:
                raise _problem(f"found the alias {event.anchor!r} of nothing before it", mark)
            anchor, (values, depth) = None, sizes[event.anchor]
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values, depth = open_nodes.pop()
            depth += 1
        else:
            continue
        if anchor is not None:
            sizes[anchor] = values, depth
        if open_nodes:
            above, so_far, below = open_nodes[-1]
            open_nodes[-1] = above, so_far + values, max(below, depth)
            if so_far + values > MOST_VALUES:
                raise _problem(f"found more than {MOST_VALUES:,} values", mark)
            if len(open_nodes) + depth > MOST_DEPTH:
                raise _problem(f"found more than {MOST_DEPTH} levels of nesting", mark)


def _problem(words: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, words, mark)
