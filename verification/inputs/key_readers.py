"""What must hold of what the readers of keys return."""

from forecache.calibration.today.keys import BigKeys
from forecache.calibration.today.rdb import KeySizes, RdbReader

from .reader_results import WrongResult, in_range, on_lines

_MOST_EXPANSION = 90
"""Of compressed strings, a little more than there can be."""


def rdb_keys(data: bytes) -> list[KeySizes]:
    """All keys of a file."""
    return list(RdbReader(data, file="f"))


def check_rdb(result: object, text: str) -> None:
    """No number is below 0, and there is no more than so many bytes can hold."""
    assert isinstance(result, list)
    in_range(result)
    if len(result) > len(text) // 3:
        raise WrongResult(f"{len(result)} keys in {len(text)} bytes")
    total = sum(
        key.key_bytes + key.value.elements + key.value.element_bytes + key.value.value_bytes
        for key in result
    )
    # A number of eight bytes is up to twenty digits; an entry of a stream counts by its own word.
    streams = sum(key.value.elements for key in result if key.value.kind == "stream")
    if total - streams > _MOST_EXPANSION * len(text):
        raise WrongResult(f"{total - streams} bytes and elements in {len(text)} bytes")


def check_big_keys(result: object, text: str) -> None:
    """Numbers stand in the text, and types add up."""
    assert isinstance(result, BigKeys)
    in_range(result)
    on_lines([[result.sampled]], text)
    on_lines([[result.key_bytes]], text)
    on_lines([[each.keys, each.total] for each in result.types], text)
    if sum(each.keys for each in result.types) != result.sampled:
        raise WrongResult(f"types that do not add up to {result.sampled}")
