"""What must hold of any reader's result: numbers in range, and in the text it was read from."""

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping


class WrongResult(Exception):
    """A result that its input doesn't justify."""


NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def key(number: float) -> str:
    """Equal for a number and its text, whatever scaling lies between."""
    return f"{abs(number):.12g}"


def in_range(result: object, *, signed: frozenset[str] = frozenset()) -> None:
    """Every number is finite and not negative, and what is called a fraction at most 1.

    Fields named in `signed` may be negative, and a variance may exceed its mean.
    """
    for name, number in _numbers(result, ""):
        if not math.isfinite(number):
            raise WrongResult(f"{name} is {number}")
        if number < 0 and name not in signed:
            raise WrongResult(f"{name} is {number}, negative")
        if name.endswith("_fraction") and name != "variance_fraction" and number > 1:
            raise WrongResult(f"{name} is {number}, above 1")


def _numbers(value: object, name: str) -> Iterator[tuple[str, float]]:
    """Every number in a result with the name of its field."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, int | float):
        yield name, value
    elif dataclasses.is_dataclass(value):
        for part in dataclasses.fields(value):
            yield from _numbers(getattr(value, part.name), part.name)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _numbers(item, name)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item, name)
    else:
        raise WrongResult(f"{name} is a {type(value).__name__}")


def present(*numbers: float | None) -> list[float]:
    return [number for number in numbers if number is not None]


def on_lines(records: Iterable[list[float]], text: str) -> None:
    """The numbers of a record stand on a line of its own, in their order, and so do the lines."""
    lines = [[key(float(found)) for found in NUMBER.findall(line)] for line in text.split("\n")]
    following = iter(lines)
    for record in records:
        wanted = [key(number) for number in record]
        if not any(_in_order(wanted, line) for line in following):
            raise WrongResult(f"{wanted} are on no line")


def _in_order(wanted: list[str], line: list[str]) -> bool:
    """Whether a line has the wanted numbers in their order, others between them or not."""
    found = iter(line)
    return all(number in found for number in wanted)
