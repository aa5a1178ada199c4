"""Random points of Memcached for memaslap, and how measured and predicted are compared."""

from evidence.live.memaslap import MOST_KEYS, POINTS, random_points
from evidence.live.rounds import MOST_BYTES


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
