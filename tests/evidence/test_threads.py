"""What threads compute for a request, of a repetition, and points that drive several threads."""

import pytest

from evidence.live.threads import IO_THREADS, computed_us, errors_of, random_points
from forecache.calibration.bundle.points import Repetition


def repetition(**changes: object) -> Repetition:
    fields: dict[str, object] = {
        "started_s": 0.0,
        "requests": 1000,
        "duration_s": 1.0,
        "throughput_rps": 1000.0,
        "main_thread_cpu_ns_per_request": 3000.0,
        "io_thread_cpu_ns_per_request": [2000.0, 1000.0],
        "main_thread_utilisation": 0.9,
        "main_voluntary_switches_per_request": 0.0,
        "main_involuntary_switches_per_request": 0.0,
        "generator_cpu_ns_per_request": 1000.0,
        "generator_utilisation": 0.5,
    }
    return Repetition.model_validate({**fields, **changes})


def test_threads_that_sleep_compute_as_long_as_they_run() -> None:
    assert computed_us(repetition()) == pytest.approx((3.0, 3.0))


def test_threads_that_spin_compute_while_active_and_on_a_core() -> None:
    active = {
        "main_thread_active_time_ns_per_request": 1800.0,
        "io_threads_active_time_ns_per_request": [500.0, 4000.0],
    }
    assert computed_us(repetition(**active)) == pytest.approx((1.8, 1.5))


def test_random_points_have_each_number_of_threads() -> None:
    points = random_points(3)
    assert points == random_points(3) != random_points(4)
    shares = [sum(p.io_threads == n for p in points) / len(points) for n in IO_THREADS]
    assert shares == [0.5, 0.5]
    assert all(p.role == "holdout" and p.clients >= 10 for p in points)


def test_errors_are_of_medians() -> None:
    rows = [{"main_us": [1.0, 1.0, 2.0, 2.0], "predicted_main_us": 3.0}]
    assert errors_of(rows, "main") == ["100.0%", "+100.0%", "100.0%"]
