"""Arithmetic formulas over the leaves of a profile, such as `11 / clock_ghz`.

A `derived` leaf carries its formula as text, so that the number can be recomputed from the leaves
it came from. Only numbers, leaf paths, `+ - * / **` and brackets are understood.
"""

import ast
import operator
from collections.abc import Callable, Mapping

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
