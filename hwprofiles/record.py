"""What every record that is read from a file has in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler

LARGEST_INTEGER = 2**53
"""Beyond it a number with decimals no longer tells neighbours apart."""

_STRICT = ("int", "float", "bool")


def _make_strict(schema: Any) -> None:
    """Set every number and truth value below a schema to be taken as it is.

    Pydantic's own strict mode would also refuse a list where a tuple is expected, and a file has
    lists only.
    """
    if isinstance(schema, dict):
        if schema.get("type") in _STRICT:
            schema["strict"] = True
        if schema.get("type") == "int":
            if "lt" not in schema:
                schema.setdefault("le", LARGEST_INTEGER)
            if "gt" not in schema:
                schema.setdefault("ge", -LARGEST_INTEGER)
        for part in schema.values():
            _make_strict(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _make_strict(part)


class Record(BaseModel):
    """A record whose fields are what they say: no unknown ones, and no value made to fit.

    A number is finite and neither a word nor a truth value (`io_threads: yes` is not 1), and an
    integer without bounds of its own lies within 2^53 of zero.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> Any:
        schema = handler(source)
        _make_strict(schema)
        return schema

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some other values, which works its cached properties out by itself."""
        copied = super().model_copy(update=update, deep=deep)
        kept = vars(copied)
        for name in kept.keys() - type(copied).model_fields.keys():
            del kept[name]
        return copied
