"""Records of a bundle: JSON, one a line, as many as the manifest announces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from forecache.hwprofiles.files import parse
from forecache.sim.errors import InputError

RecordT = TypeVar("RecordT", bound=BaseModel)


def parse_records(
    model: type[RecordT], text: str, *, file: Path, noun: str, expected: int
) -> list[RecordT]:
    """The records in a file's text, which must be `expected` lines.

    Raises
    ------
    InputError
        A line is no JSON or no such record, or lines are missing; names file and line.
    """
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{file}, line {number}"
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: no JSON ({error}); valid is one {noun} a line.") from None
        records.append(parse(model, data, file=where))
    if len(records) != expected or (text and not text.endswith("\n")):
        raise InputError(
            f"{file}, line {len(records) + 1}: the file ends after {len(records)} {noun}s; "
            f"manifest.yaml announces {expected}."
        )
    return records
