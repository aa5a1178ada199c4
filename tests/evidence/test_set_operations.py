"""Published durations of large commands: fitted to two points, held to the others."""

from pathlib import Path

import pytest
import yaml

from evidence.counts.large_command_counts import COMMANDS, member, solve
from evidence.live.large_commands_page import section
from evidence.validation import validate
from evidence.validation.set_operations import (
    COPIED_PAGE_NS,
    QUANTITY,
    TOUCH_SCALE,
    fit,
    lasting,
    scenarios_of,
)
from forecache.calibration.validate.dataset import read_dataset
from forecache.models.over_time.large_commands.work import COUNTED
from forecache.sim.effort import VARIABLE
from forecache.sim.errors import InputError

NAME = "redis-2.8-set-operations"


def test_numbers_that_made_the_points_are_found_again() -> None:
    dataset, file = read_dataset(NAME)
    scenarios = scenarios_of(dataset, file)
    true = {TOUCH_SCALE: 1.4, COPIED_PAGE_NS: 2500.0}
    made = [lasting(each, true).lasts_ns / 1e9 for each in scenarios]
    rows = [n for n, point in enumerate(dataset.points) if point.role == "calibration"]
    assert len(rows) == 2
    found = fit(scenarios, made, rows)
    assert found == pytest.approx(true, rel=1e-3)


def test_what_prints_millions_of_elements_is_within_a_twentieth_and_the_client_limits_it() -> None:
    found = validate(NAME).to_dict()
    points = {(p["given"]["command"], p["given"].get("overlap")): p for p in found["points"]}
    for key in (("sunion", None), ("sunion", 0), ("sdiff", 0)):
        assert points[key]["role"] == "validation"
        assert abs(points[key]["relative_error"][QUANTITY]) < 0.05
        assert points[key]["bound_by"] == "client"
    assert abs(points["flushdb", None]["relative_error"][QUANTITY]) < 0.25
    # Reported as they are: see docs/fleet.md.
    misses = [p for p in found["points"] if abs(p["relative_error"][QUANTITY]) > 0.25]
    assert {p["given"]["command"] for p in misses} == {"sinter", "import"}
    # Over a minute that holds the execution, the server's four CPUs are used by an eighth.
    assert 0.08 < points["sunion", 0]["parts_s"]["main_thread"] / 60 / 4 < 0.2


def test_an_observation_of_something_else_is_refused(tmp_path: Path) -> None:
    dataset, _ = read_dataset(NAME)
    data = dataset.model_dump(mode="json")
    data["points"][0]["observed"] = {"p99_ms": 1.0}
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(InputError, match="lasts_s"):
        validate(path)


def test_points_that_take_too_long_are_refused_before_a_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "0.05")
    with pytest.raises(InputError, match=rf"{NAME}.* 2 of them to calibrate with.*{VARIABLE}"):
        validate(NAME)


def test_the_page_shows_what_was_kept() -> None:
    point = {
        "given": {"command": "sunion", "overlap": 0},
        "role": "validation",
        "observed": {"lasts_s": 408.0},
        "predicted": {"lasts_s": {"value": 400.0, "low": 320.0, "high": 500.0}},
        "relative_error": {"lasts_s": -0.02},
        "bound_by": "client",
        "parts_s": dict.fromkeys(("blocks", "server", "network", "client", "prints"), 1.0),
    }
    fitted = [{"name": "touch_scale", "factor": 1.1}, {"name": "copied_page_ns", "factor": 6800.0}]
    number = {"measured": 10.0, "predicted": 13.0, "error": 0.3}
    nearer = {"measured": 10.0, "predicted": 11.0, "error": 0.1}
    rows = [
        {"command": "KEYS", "main_thread_ms": number, "lasts_ms": nearer},
        {"command": "SMEMBERS", "main_thread_ms": nearer, "lasts_ms": nearer},
    ]
    live = {"engine": "redis 7.0.15", "host": "some", "members": 1000, "member_bytes": 64}
    published = {"points": [point], "fitted": fitted}
    text = "\n".join(section(published, [live | {"rows": rows}]))
    assert "| SUNION A B | 408 s | 400 s (320–500) | -2% |" in text
    assert "| redis 7.0.15 | some | 1,000 × 64 B | 4 | 3 | 10% | 30% | 4 |" in text


def test_counts_that_are_lines_give_their_slopes() -> None:
    def row(members: int, size: int) -> dict[str, object]:
        return {
            "members": members,
            "member_bytes": size,
            "instructions": dict.fromkeys(COUNTED, 10_000 + members * (500 + 3 * size)),
        }

    rows = [row(n, size) for n, size in ((3125, 64), (25_000, 64), (3125, 256), (25_000, 256))]
    assert solve(rows, "smembers", layout="dict") == pytest.approx({"member": 500, "byte": 3})


def test_members_differ_and_have_their_length() -> None:
    members = {member(number, 64) for number in range(3000)}
    assert len(members) == 3000
    assert {len(each) for each in members} == {64}
    assert set(COMMANDS) <= set(COUNTED)
