"""Points that drive several threads, and how errors of what they compute are summed up."""

from evidence.live.threads import IO_THREADS, errors_of, random_points, waiting_of


def test_random_points_have_each_number_of_threads() -> None:
    points = random_points(3)
    assert points == random_points(3) != random_points(4)
    shares = [sum(p.io_threads == n for p in points) / len(points) for n in IO_THREADS]
    assert shares == [0.5, 0.5]
    assert all(p.role == "holdout" and p.clients >= 10 for p in points)


def test_errors_are_of_medians() -> None:
    rows = [{"main_us": [1.0, 1.0, 2.0, 2.0], "predicted_main_us": 3.0}]
    assert errors_of(rows, "main") == ["100.0%", "+100.0%", "100.0%"]


def test_what_was_not_told_apart_is_left_out() -> None:
    rows = [{"io_us": [], "predicted_io_us": 3.0, "waiting_us": [], "predicted_waiting_us": 1.0}]
    assert errors_of(rows, "io") == ["–"] * 3
    assert waiting_of(rows) == ["–"] * 3


def test_waiting_is_a_share_of_all_that_threads_take() -> None:
    measured = {"main_us": [1.0], "io_us": [2.0], "waiting_us": [2.0, 4.0]}
    predicted = {"predicted_main_us": 1.0, "predicted_io_us": 1.0, "predicted_waiting_us": 2.0}
    rows = [{"waiting_us": []}, measured | predicted, measured | predicted]
    assert waiting_of(rows) == ["50%", "50%", "0%"]
    assert waiting_of([measured | predicted | {"predicted_waiting_us": 6.0}])[1:] == ["75%", "25%"]
