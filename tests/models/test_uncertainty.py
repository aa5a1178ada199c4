"""Draws of uncertain numbers: they fill their ranges, and repeat."""

from dataclasses import fields

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.hwprofiles.speed import HostSpeed
from forecache.models.engines.commands import COMMAND_WORK
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import WORK_NAMES, load_engine
from forecache.models.prediction.uncertainty import (
    NOT_UNCERTAIN,
    Draw,
    draw_engine,
    draw_generator,
    draw_host,
    draw_ranges,
)
from forecache.models.step_times.inputs import DISK_RANGES
from tests.models.made_profiles import prior

DRAWS = 4000


@pytest.mark.parametrize("ends", [(10.0, 20.0, 40.0), (10.0, 35.0, 40.0), (0.0, 2.0, 5.0)])
def test_a_range_is_the_middle_95_percent(ends: tuple[float, float, float]) -> None:
    low, value, high = ends
    drawn = np.array([draw_ranges("host", {"x": ends}, Draw(5, n))["x"] for n in range(DRAWS)])
    assert np.median(drawn) == pytest.approx(value, abs=0.03 * (high - low))
    assert np.mean(drawn > high) == pytest.approx(0.025, abs=0.01)
    if low > 0:
        assert np.mean(drawn < low) == pytest.approx(0.025, abs=0.01)
    assert (drawn >= 0).all()


def test_a_number_without_a_width_stays_what_it_is() -> None:
    assert draw_ranges("host", {"x": (3.0, 3.0, 3.0)}, Draw(1, 0)) == {"x": 3.0}


def test_a_draw_repeats_and_covers_what_is_uncertain() -> None:
    host, engine = load_host("graviton3-c7g.4xlarge"), load_engine("valkey-9.1")
    generator = load_generator("memtier-benchmark")
    commands = set(engine.uncertain_commands())
    for draw, thing in ((draw_host, host), (draw_engine, engine), (draw_generator, generator)):
        first, again = (draw(thing, Draw(1, 2)) for _ in range(2))  # type: ignore[operator]
        other, seeded = (draw(thing, d) for d in (Draw(1, 3), Draw(2, 2)))  # type: ignore[operator]
        assert first == again != other
        assert seeded not in (first, other)
        assert set(first) - commands == set(thing.uncertain()) - NOT_UNCERTAIN
    assert commands <= set(draw_engine(engine, Draw(1, 2)))
    assert not set(COMMAND_WORK) & set(WORK_NAMES), "one would stand for the other"


def test_a_draw_of_a_number_does_not_depend_on_what_else_is_drawn() -> None:
    ranges = dict.fromkeys(("a", "b", "c"), (1.0, 2.0, 4.0))
    draw = Draw(3, 1)
    together = draw_ranges("host", ranges, draw)
    for name, bounds in ranges.items():
        assert draw_ranges("host", {name: bounds}, draw) == {name: together[name]}
    # Names that an engine and a load generator share are different numbers.
    assert draw_ranges("work", ranges, draw) != together != draw_ranges("generator", ranges, draw)


def test_numbers_are_drawn_independently() -> None:
    ranges = dict.fromkeys(("a", "b"), (1.0, 2.0, 4.0))
    logs = np.log([list(draw_ranges("host", ranges, Draw(3, n)).values()) for n in range(DRAWS)])
    assert np.corrcoef(logs.T)[0, 1] == pytest.approx(0.0, abs=0.05)
    # Consecutive draws, too.
    assert np.corrcoef(logs[1:, 0], logs[:-1, 0])[0, 1] == pytest.approx(0.0, abs=0.05)


def test_every_number_has_an_address_of_its_own() -> None:
    engines = ("valkey-9.1", "memcached-1.6", "elasticache-redis-7.1")
    names = {f"work.{n}" for e in engines for n in (*load_engine(e).work, *load_engine(e).commands)}
    names |= {f"host.{field.name}" for field in fields(HostSpeed)}
    names |= {f"generator.{n}" for n in load_generator("memtier-benchmark").work}
    names |= {f"disk.{n}" for n in DISK_RANGES}
    assert len(set(Draw(1, 0).normals(sorted(names)))) == len(names) > 100


def test_no_draw_changes_how_many_cores_there_are() -> None:
    host = load_host("graviton3-c7g.4xlarge")
    drawn = host.speed(draw_host(host, Draw(1, 0)))
    assert drawn.cores == host.speed().cores
    assert drawn.price_usd_per_hour == host.speed().price_usd_per_hour
    assert drawn.tcp_send_ns != host.speed().tcp_send_ns


def test_a_fitted_covariance_takes_the_place_of_ranges() -> None:
    """Two numbers that only their sum was observed of move against each other."""
    names = ("read_instructions", "write_instructions")
    covariance = {
        names[0]: {names[0]: 0.0100, names[1]: -0.0095},
        names[1]: {names[0]: -0.0095, names[1]: 0.0100},
    }
    engine = load_engine("valkey-9.1").model_copy(update={"covariance": covariance})
    drawn = [draw_engine(engine, Draw(9, n), observed_here=True) for n in range(DRAWS // 2)]
    logs = np.log([[d[n] / engine.work[n].best for n in names] for d in drawn])
    assert np.std(logs, axis=0) == pytest.approx([0.1, 0.1], rel=0.05)
    assert np.corrcoef(logs.T)[0, 1] == pytest.approx(-0.95, abs=0.01)
    assert logs.mean(axis=0) == pytest.approx([0.0, 0.0], abs=0.01)
    low, value, high = engine.uncertain()["get_instructions"]
    others = np.array([d["get_instructions"] for d in drawn])
    assert np.quantile(others, [0.025, 0.5, 0.975]) == pytest.approx([low, value, high], rel=0.06)


def test_a_covariance_is_of_logarithms() -> None:
    """A number hardly known is drawn far above and far below its value alike, never at zero."""
    name = "get_instructions"
    engine = load_engine("valkey-9.1").model_copy(update={"covariance": {name: {name: 1.0}}})
    value = engine.work[name].best
    draws = [draw_engine(engine, Draw(4, n), observed_here=True) for n in range(DRAWS // 2)]
    drawn = np.array([each[name] for each in draws]) / value
    assert (drawn > 0).all()
    assert np.median(drawn) == pytest.approx(1.0, abs=0.06)
    assert np.quantile(drawn, [0.1587, 0.8413]) == pytest.approx([np.exp(-1), np.exp(1)], rel=0.1)


def test_a_covariance_holds_on_the_host_it_was_fitted_on() -> None:
    """On another one only the ranges do: what instructions are worth there is another question."""
    name = "get_instructions"
    plain = prior(load_engine("valkey-9.1"))
    engine = plain.model_copy(update={"covariance": {name: {name: 1e-8}}})
    here, elsewhere, ranges = (
        [draw_engine(one, Draw(1, n), observed_here=known)[name] for n in range(200)]
        for one, known in ((engine, True), (engine, False), (plain, True))
    )
    assert np.std(np.log(here)) < 2e-4
    assert elsewhere == ranges
    assert np.std(np.log(elsewhere)) > 0.05
