"""Random points of Memcached for memaslap, and how measured and predicted are compared."""

from evidence.live.memaslap import MOST_BYTES, MOST_KEYS, POINTS, WINDOWS, errors_of, random_points


def test_random_points_are_those_of_their_seed_and_what_memaslap_can_make() -> None:
    points = random_points(5)
    assert points == random_points(5) != random_points(6)
    assert len(points) == POINTS
    assert {point.command for point in points} == {"get", "set", "mix"}
    for point in points:
        assert point.pipeline == 1
        assert 1 <= point.clients <= 150
        keys_a_client = point.keys / point.clients
        if point.command == "get":
            assert keys_a_client % 1024 == 0
            assert point.keys <= MOST_KEYS or keys_a_client == 1024
            assert point.keys * point.value_bytes <= MOST_BYTES or keys_a_client == 1024
        else:
            assert keys_a_client == 1


def test_errors_repeats_and_windows_inside_are_of_the_medians() -> None:
    row = {
        "cpu_us": [10.0] * WINDOWS + [12.0] * WINDOWS,
        "throughput_rps": [100_000.0] * (2 * WINDOWS),
        "predicted_us": 9.9,
        "low_us": 9.0,
        "high_us": 11.0,
        "predicted_rps": 110_000.0,
    }
    assert errors_of([row]) == ["10.0%", "10.0%", "-10.0%", "20.0%", "50%", "10.0%"]
