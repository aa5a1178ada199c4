"""Which known version's rules a version has."""

import pytest

from forecache.models.scenario.versions import find_version

KNOWN = ("7.2", "8.0", "8.1", "9.0.0", "9.0", "9.1")


@pytest.mark.parametrize(
    ("version", "found"),
    [
        ("8.0", "8.0"),
        ("8.0.1", "8.0"),
        ("9.0.0", "9.0.0"),
        ("9.0.3", "9.0"),
        ("9.2", "9.1"),
        ("10.0", "9.1"),
        ("7.3", None),
        ("12.0", None),
        ("91", None),
        ("unstable", None),
    ],
)
def test_a_version_has_rules_of_its_own_of_its_release_or_of_the_newest(
    version: str, found: str | None
) -> None:
    assert find_version(version, KNOWN) == found


def test_nothing_known_has_no_rules() -> None:
    assert find_version("8.0", ()) is None
