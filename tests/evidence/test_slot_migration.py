"""Published durations of migrations: what is fitted, what is predicted, what is refused."""

from dataclasses import fields
from pathlib import Path

import pytest

from evidence.live.migration_check import PLANS, fit, fit_operator, predict
from evidence.live.migration_live import Measured, Trial
from evidence.validation import validate
from evidence.validation.slot_migration import Rebalance, duration_s, validate_migrations
from forecache.calibration.validate.dataset import read_dataset
from forecache.hwprofiles.files import dump_yaml
from forecache.models.over_time.cluster.migration import SAVE_FSYNCS
from forecache.sim.errors import InputError

NUMBERS = [each.name for each in fields(Measured) if each.name != "trial"]


def test_calibration_points_are_met_and_held_out_ones_compared() -> None:
    result = validate("slot-migration").to_dict()
    by_role = {"calibration": [], "validation": []}
    for point in result["points"]:
        by_role[point["role"]].append(abs(point["relative_error"]["duration_s"]))
    assert max(by_role["calibration"]) < 0.01
    assert len(by_role["validation"]) == result["summary"]["duration_s"]["n"] == 6
    # As published docs say: what is missed is missed by no more than this.
    assert result["summary"]["duration_s"]["max_ape"] < 0.95
    assert [row["points"] for row in result["fitted"]] == [[0], [4]]


def test_small_slots_are_predicted_without_anything_fitted() -> None:
    result = validate("redis-7.2-resharding").to_dict()
    assert result["fitted"] == []
    up, down = result["points"]
    # What is missed is missed by no more than the page says, and lies in the interval.
    for name, most in (("duration_s", 0.35), ("moving_rps", 0.4), ("first_second_rps", 0.2)):
        assert result["summary"][name]["max_ape"] < most
    assert result["summary"]["duration_s"]["coverage"] == 1.0
    # Only a new shard makes clients draw keys.
    assert up["predicted"]["first_second_rps"]["value"] < up["predicted"]["moving_rps"]["value"]
    assert "first_second_rps" not in down["predicted"]


def test_disks_and_round_trips_decide_how_long_small_slots_take() -> None:
    dataset, file = read_dataset("redis-7.2-resharding")
    case = Rebalance.of(dataset, dataset.points[0], file)
    times = [
        duration_s(case.model_copy(update={"fsync_ms": each}), 1.0) for each in (0.0, 1.0, 2.0)
    ]
    # 4,096 slots, each waited for by operator and those that asked meanwhile.
    assert times[2] - times[1] == pytest.approx(4096 * SAVE_FSYNCS * 1e-3)
    assert times[0] < times[1]


def test_atomic_is_several_times_as_fast_and_load_slows_both() -> None:
    dataset, file = read_dataset("slot-migration")
    times = {
        (point.given["method"], point.given["load"]): duration_s(
            Rebalance.of(dataset, point, file), 1.0
        )
        for point in dataset.points
        if point.given["shards_before"] == 3
    }
    assert times["key_by_key", "none"] > 4 * times["atomic", "none"]
    for method in ("key_by_key", "atomic"):
        assert times[method, "heavy"] > times[method, "none"]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"method": "by_hand"}, "field 'method': found 'by_hand'"),
        ({"shards_after": 0}, "field 'shards_after': found 0"),
        ({"load": None}, "field 'load'"),
    ],
)
def test_points_it_cannot_predict_are_refused(
    change: dict[str, object], part: str, tmp_path: Path
) -> None:
    dataset, _ = read_dataset("slot-migration")
    data = dataset.model_dump(exclude_none=True)
    data["points"][2]["given"].update(change)
    path = tmp_path / "moved.yaml"
    path.write_text(dump_yaml(data))
    with pytest.raises(InputError) as caught:
        validate(path)
    assert f"{path}: points[2]" in str(caught.value)
    assert part in str(caught.value)


def test_a_method_without_a_calibration_point_is_refused() -> None:
    dataset, file = read_dataset("slot-migration")
    points = [
        p.model_copy(update={"role": "validation"}) if p.given["method"] == "atomic" else p
        for p in dataset.points
    ]
    with pytest.raises(InputError, match="no calibration point"):
        validate_migrations(dataset.model_copy(update={"points": points}), file)


def made(trial: Trial) -> Measured:
    """A trial as it would be measured with known costs per slot, batch, key and byte."""
    keys = trial.slots * trial.keys
    batches = trial.slots * -(-trial.keys // trial.pipeline)
    data = keys * trial.value_bytes
    source = 2e5 * trial.slots + 3e4 * batches + 5e3 * keys + 2 * data
    target = 1e5 * trial.slots + 2e4 * batches + 1e3 * keys + 1 * data
    operator = 4e4 * trial.slots * (2 * -(-trial.keys // trial.pipeline) + 5)
    trips = trial.slots * (5 + 3 * -(-trial.keys // trial.pipeline))
    wire = data / 2.5
    lasts = (source + target + operator + wire + 2e4 * trips) * 1e-9
    return Measured(
        trial=trial, duration_s=lasts, source_ns=source, target_ns=target, child_ns=0.0,
        operator_ns=operator,
    )  # fmt: skip


def test_a_fit_finds_the_costs_it_was_given() -> None:
    plan = PLANS["redis-key-by-key"]
    work, link = fit([made(trial) for trial in plan.calibration])
    assert work.setslot_source_ns == pytest.approx(2e5, rel=1e-3)
    assert work.fetch_ns + work.dump_call_ns == pytest.approx(3e4, rel=1e-3)
    assert work.restore_ns_per_byte == pytest.approx(1.0, rel=1e-3)
    assert link.node_rtt_s == pytest.approx(2e-5, rel=0.05)
    operator = fit_operator([made(trial) for trial in plan.calibration])
    for trial in plan.validation:
        if not trial.loaded:
            seen = made(trial)
            lasts, _ = predict(seen, work, link, operator)
            assert lasts == pytest.approx(seen.duration_s, rel=0.05)
