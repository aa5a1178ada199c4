"""A number with its origin: the leaf of every profile."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer, model_validator

from .record import Record

Kind = Literal["measured", "fitted", "prior", "published", "derived", "assumed"]
LEAST_ADDED = 0.1
"""Share of what is known of a number that data have to add for it to be `fitted`."""
Status = Literal["provisional", "reviewed"]


def kind_of_fit(added: float) -> Kind:
    """The kind of a number of a fit, by the share of what is known of it that the data added."""
    return "fitted" if added >= LEAST_ADDED else "prior"


class Origin(Record):
    """Where a number or a curve comes from.

    Attributes
    ----------
    source
        Id in the `sources` of its file. Required for all kinds but `derived` and `assumed`.
    kind
        `measured` by the source; `fitted` to it, and the data moved it; `prior`, fitted in name
        only: the data add less than a tenth of what is known; `published` as a specification or
        price; `derived` by `formula` from other leaves; or `assumed` for the reason in `method`.
    method
        How it was measured, or why it was assumed.
    status
        `reviewed` when a second derivation, made without looking at the first, agreed.
    """

    source: str | None = None
    kind: Kind
    method: str = ""
    status: Status = "provisional"


class Quantity(Origin):
    """One number: value, unit, origin and range.

    `value: null` means unknown and needs a range; so does `kind: assumed`. `low` and `high` bound
    what a reasonable person would still believe; they are not a confidence interval.
    """

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    formula: str | None = None

    @model_validator(mode="after")
    def _check(self) -> "Quantity":
        if (self.low is None) != (self.high is None):
            raise ValueError("both low and high, or neither")
        if self.low is not None and self.high is not None:
            if self.low > self.high:
                raise ValueError(f"low <= high, not {self.low} > {self.high}")
            if self.value is not None and not self.low <= self.value <= self.high:
                raise ValueError(f"low <= value <= high, not {self.low}, {self.value}, {self.high}")
            if self.low <= 0.0 and self.value is None:
                raise ValueError("a range above zero where the value is unknown")
        elif self.value is None:
            raise ValueError("a range (low and high) where the value is unknown")
        elif self.kind == "assumed":
            raise ValueError("a range (low and high) where kind is assumed")
        if self.kind not in ("derived", "assumed") and self.source is None:
            raise ValueError(f"a source where kind is {self.kind}")
        if self.kind == "assumed" and not self.method:
            raise ValueError("a reason in method where kind is assumed")
        if (self.kind == "derived") != (self.formula is not None):
            raise ValueError("a formula exactly where kind is derived")
        return self

    @model_serializer
    def _as_plain_data(self) -> dict[str, Any]:
        """Only what is set, and always the value: null is a statement."""
        data = {name: getattr(self, name) for name in ("value", "unit", "kind", "source")}
        data |= {name: getattr(self, name) for name in ("formula", "low", "high", "method")}
        data |= {"status": self.status} if self.status != "provisional" else {}
        return {
            name: item for name, item in data.items() if name == "value" or item not in (None, "")
        }

    @property
    def best(self) -> float:
        """The value, or where it is unknown the geometric middle of the range."""
        if self.value is not None:
            return self.value
        # The validator saw to it that an unknown value has a range.
        return math.sqrt((self.low or 0.0) * (self.high or 0.0))


def ranges_of(leaves: Mapping[str, Quantity]) -> dict[str, tuple[float, float, float]]:
    """(low, value, high) of each number that has a range."""
    return {
        name: (leaf.low, leaf.best, leaf.high)
        for name, leaf in leaves.items()
        if leaf.low is not None and leaf.high is not None
    }


class Curve(Origin):
    """Raw points of a measured curve; its users fit it, and the fit is not stored.

    Attributes
    ----------
    points
        Pairs (x, y) in the order the source gives them.
    x_unit, y_unit
        Units of the pairs.
    """

    x_unit: str
    y_unit: str
    points: list[tuple[float, float]] = Field(min_length=2)


class Source(Record):
    """A page, file or run that numbers were taken from.

    Attributes
    ----------
    points
        Where the source also gives the measurements of a dataset that predictions are held against:
        the points the numbers rest on, by the dataset's id and position from 0; `{}` for none. A
        test refuses those that may only be predicted.
    """

    title: str
    url: str | None = None
    file: str | None = None
    accessed: str | None = None
    licence: str | None = None
    note: str | None = None
    points: dict[str, list[Annotated[int, Field(ge=0)]]] | None = None

    @model_validator(mode="after")
    def _check(self) -> "Source":
        if self.url is None and self.file is None:
            raise ValueError("a source with a url or a file")
        return self


# --- arithmetic formulas over the leaves of a profile, such as `11 / clock_ghz` -------------------

# A `derived` leaf carries its formula as text, so that the number can be recomputed from the leaves
# it came from. Only numbers, leaf paths, `+ - * / **` and brackets are understood.


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def evaluate(formula: str, values: Mapping[str, float]) -> float:
    """Value of a formula.

    Parameters
    ----------
    formula
        For example `"dram.latency_ns - caches.L3.latency_ns"`.
    values
        Numbers by leaf path.

    Raises
    ------
    ValueError
        The formula is not arithmetic, divides by zero, or names an unknown or empty leaf.
    """
    try:
        tree = ast.parse(formula, mode="eval")
        return float(_value(tree.body, values))
    except (SyntaxError, ZeroDivisionError, OverflowError, RecursionError, TypeError) as error:
        raise ValueError(f"the formula {formula!r} can't be computed ({error})") from None


def _value(node: ast.expr, values: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, values)
    if isinstance(node, ast.Name | ast.Attribute):
        path = ast.unparse(node)
        if path not in values:
            raise ValueError(f"the formula names {path!r}, which has no value in this profile")
        return values[path]
    raise ValueError(f"the formula part {ast.unparse(node)!r} is not arithmetic")
