"""What a plan's scenario says of values that clients compress."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.capture.compression import LEVELS
from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.record import Record as _Record
from forecache.sim.statistics import Estimate


class RatioRange(_Record):
    """A ratio that isn't known exactly."""

    low: float = Field(gt=0, le=1)
    """The least it may be."""
    high: float = Field(gt=0, le=1)
    """The most; plans are made for the middle."""

    @model_validator(mode="after")
    def _ordered(self) -> RatioRange:
        if self.low > self.high:
            raise ValueError(f"low not above high (found {self.low:g} and {self.high:g})")
        return self


class Compression(_Record):
    """How clients compress values of strings before they send them."""

    algorithm: Literal["zstd", "lz4", "gzip"]
    """What compresses: zstd and lz4 with the extra `forecache[compression]`."""
    level: int | None = Field(default=None, ge=0, le=22)
    """Its level; without it 3 of zstd, 0 of lz4, 6 of gzip."""
    above_bytes: int = Field(default=1024, ge=0, le=512 * 2**20)
    """Values that are longer are compressed; one that would grow stays as it is."""
    sample: str | None = Field(default=None, min_length=1)
    """A file with values, on which ratio and CPU time are measured; this or `ratio`."""
    values: Literal["pieces", "lines"] = "pieces"
    """What values are in the sample: pieces of it as long as the value, or lines about as long."""
    ratio: Annotated[float, Field(gt=0, le=1)] | RatioRange | None = None
    """Bytes after for bytes before, or `{low: 0.3, high: 0.4}`; the CPU time is not known then."""

    @model_validator(mode="after")
    def _one(self) -> Compression:
        if (self.sample is None) == (self.ratio is None):
            raise ValueError("one of sample and ratio")
        low, _, high = LEVELS[self.algorithm]
        if self.level is not None and not low <= self.level <= high:
            raise FieldError(
                "level", found=self.level, valid=f"{low} to {high} of {self.algorithm}"
            )
        return self

    @property
    def level_used(self) -> int:
        """The level, or the algorithm's own."""
        return LEVELS[self.algorithm][1] if self.level is None else self.level

    @property
    def given_ratio(self) -> Estimate | None:
        """The ratio, where it isn't measured."""
        if self.ratio is None:
            return None
        if isinstance(self.ratio, RatioRange):
            low, high = self.ratio.low, self.ratio.high
            return Estimate((low + high) / 2.0, low, high)
        return Estimate(self.ratio, self.ratio, self.ratio)
