"""Fields take what they say and nothing that could be made to fit."""

from functools import cached_property
from typing import Any

import pytest
from pydantic import Field

from forecache.hwprofiles.files import parse
from forecache.hwprofiles.record import LARGEST_INTEGER, Record
from forecache.sim.errors import InputError


class Inner(Record):
    share: float = 1.0


class Outer(Record):
    threads: int = Field(default=1, ge=1)
    many: int = 1
    objective_ms: float | None = None
    spins: bool = False
    sizes: tuple[tuple[int, float], ...] = ()
    inner: Inner = Inner()
    by_name: dict[str, int | float] = Field(default={})

    @cached_property
    def twice(self) -> int:
        return 2 * self.many


@pytest.mark.parametrize(
    "data",
    [
        {"threads": True},
        {"threads": "2"},
        {"threads": 1.5},
        {"many": LARGEST_INTEGER + 1},
        {"many": -LARGEST_INTEGER - 1},
        {"objective_ms": float("inf")},
        {"objective_ms": float("nan")},
        {"objective_ms": "1"},
        {"objective_ms": False},
        {"spins": 1},
        {"spins": "yes"},
        {"sizes": [[1, True]]},
        {"inner": {"share": float("-inf")}},
        {"by_name": {"a": True}},
        {"unknown": 1},
    ],
)
def test_what_does_not_fit_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^f: "):
        parse(Outer, data, file="f")


def test_what_fits_is_taken() -> None:
    data = {"threads": 3, "objective_ms": 1, "spins": True, "sizes": [[1, 2]], "by_name": {"a": 2}}
    outer = parse(Outer, data, file="f")
    assert (outer.threads, outer.objective_ms, outer.sizes) == (3, 1.0, ((1, 2.0),))


def test_a_copy_works_out_by_itself_what_it_keeps() -> None:
    outer = Outer(many=3)
    assert outer.twice == 6
    copied = outer.model_copy(update={"many": 4})
    assert copied.twice == 8
    assert outer.model_copy() == outer
    assert "twice" not in outer.model_dump()
