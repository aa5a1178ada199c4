"""The model of a cache beside a database against running memcached processes."""

import pytest

from evidence.live.memcached_check import Check, compare
from tests.live_engine import need


@pytest.mark.alone
@pytest.mark.parametrize(
    "check",
    [
        Check("3 to 5", "modulo", 3, 5, keys=5000, change_s=2, duration_s=6),
        Check("3 to 5, ketama", "ketama", 3, 5, keys=5000, change_s=2, duration_s=6),
        Check("restart", "ketama", 2, 2, keys=5000, change_s=2, duration_s=6),
    ],
    ids=lambda check: check.name,
)
def test_hit_rate_of_every_second_is_met_within_ten_points(check: Check) -> None:
    need("memcached")
    found = compare(check, paced=False)
    assert found["worst_difference"] < 0.1
    assert found["measured_keys_moved"] == pytest.approx(found["predicted_keys_moved"], abs=0.03)
    # It did change something.
    before, after = found["measured_hit_share"][1:3]
    assert after < before - 0.1
