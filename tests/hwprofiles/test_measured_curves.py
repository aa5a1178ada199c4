"""Curves that a capture measures between two CPUs, and what a host's speed makes of them."""

from dataclasses import replace
from typing import Any

import pytest

from forecache.hwprofiles.catalogue import load_host
from forecache.hwprofiles.files import parse
from forecache.hwprofiles.quantity import Curve
from forecache.hwprofiles.schema import HostProfile
from forecache.hwprofiles.speed import READ_BYTES, HostSpeed
from forecache.sim.errors import InputError

HOST = load_host("graviton3")
CALL_NS = 700.0


def curve(points: list[tuple[float, float]], x_unit: str) -> Curve:
    return Curve(kind="measured", source="arm-asct", x_unit=x_unit, y_unit="ns", points=points)


def with_curve(name: str, points: list[tuple[float, float]]) -> HostSpeed:
    unit = "1" if name == "wake_curve" else "B"
    return HOST.model_copy(update={name: curve(points, unit)}).speed()


def test_bytes_count_beyond_the_calls_that_move_them() -> None:
    sizes = {1024: 0.02, READ_BYTES: 0.03, 4 * READ_BYTES: 0.08}
    points = [(64.0, CALL_NS)]
    for size, ns_per_byte in sizes.items():
        calls = -(-size // READ_BYTES)
        points.append((float(size), calls * CALL_NS + size * ns_per_byte))
    speed = with_curve("recv_curve", points)
    for size, ns_per_byte in sizes.items():
        assert speed.recv_ns_per_byte(size) == pytest.approx(ns_per_byte)
    # Between two sizes it is between their costs, and beyond the last one as there.
    assert 0.03 < speed.recv_ns_per_byte(2 * READ_BYTES) < 0.08
    assert speed.recv_ns_per_byte(10**9) == pytest.approx(0.08)
    assert speed.recv_ns_per_byte(1) == pytest.approx(0.02)
    # The other direction was not measured.
    assert speed.send_ns_per_byte(1024) == speed.message_ns_per_byte


def test_without_a_curve_long_messages_take_less_per_byte() -> None:
    speed = HOST.speed()
    sizes = (64, 1024, 4096, 100_000)
    costs = [speed.recv_ns_per_byte(size) for size in sizes]
    assert costs == sorted(costs, reverse=True)
    assert costs == [speed.send_ns_per_byte(size) for size in sizes]
    assert costs[1] == pytest.approx(speed.message_ns_per_byte)
    # It comes from another core's cache; a copy on one core takes less.
    assert costs[1] > speed.copy_ns_per_byte


def test_a_capture_without_messages_between_cores_knows_one_number() -> None:
    speed = replace(HOST.speed(), message_ns_per_byte=0.0)
    assert speed.recv_ns_per_byte(64) == speed.send_ns_per_byte(100_000) == speed.copy_ns_per_byte


def test_a_message_that_costs_no_more_than_its_calls_still_costs_something() -> None:
    speed = with_curve("send_curve", [(64, 4000), (16_384, 3900)])
    assert 0 < speed.send_ns_per_byte(16_384) < 0.001


def test_wake_ups_are_told_relative_to_their_median() -> None:
    speed = with_curve("wake_curve", [(0.0, 8000), (0.5, 10_000), (1.0, 30_000)])
    assert speed.wake_spread == ((0.0, 0.8), (0.5, 1.0), (1.0, 3.0))
    assert dict(HOST.speed().wake_spread)[0.5] == 1.0, "assumed where nothing was measured"


@pytest.mark.parametrize(
    ("name", "points", "valid"),
    [
        ("wake_curve", [[0.0, 100], [1.5, 200]], "shares from 0 to 1"),
        ("wake_curve", [[0.5, 100], [0.5, 200]], "shares from 0 to 1"),
        ("wake_curve", [[0.0, 200], [1.0, 100]], "don't fall"),
        ("recv_curve", [[0, 100], [64, 200]], "different sizes"),
        ("send_curve", [[64, 100], [64, 200]], "different sizes"),
        ("send_curve", [[64, 0], [128, 200]], "above zero"),
    ],
)
def test_a_curve_that_can_not_be_is_refused(name: str, points: Any, valid: str) -> None:
    data = HOST.model_dump(mode="json", exclude_defaults=True)
    data[name] = {"kind": "measured", "source": "arm-asct", "x_unit": "1", "y_unit": "ns"}
    data[name]["points"] = points
    with pytest.raises(InputError, match=valid):
        parse(HostProfile, data, file="host.yaml")
