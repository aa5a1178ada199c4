"""Measurements of threads that share cores: the dataset they become, and how they are predicted."""

from pathlib import Path

from evidence.live.crowded import PLACES, dataset, predicted, report
from forecache.calibration.validate.dataset import load_dataset
from forecache.hwprofiles.files import dump_yaml

RATES = {("shared", 1): [1e5, 2e5, 3e5], ("shared", 2): [5e4], ("one_core", 1): [4e5]}
RATES[("one_core", 2)] = [3e3, 4e3]


def test_medians_become_a_dataset_of_which_single_threads_may_be_fitted(tmp_path: Path) -> None:
    written = tmp_path / "crowded.yaml"
    written.write_text(dump_yaml(dataset("redis", "7.0", "graviton3", RATES)))
    data, _ = load_dataset(str(written))
    found = {
        (point.given["cores"], point.given["io_threads"]): (
            point.observed["throughput_rps"],
            point.role,
        )
        for point in data.points
    }
    assert found == {
        (2, 1): (200_000, "calibration"),
        (2, 2): (50_000, "validation"),
        (1, 1): (400_000, "calibration"),
        (1, 2): (3_500, "validation"),
    }


def test_two_threads_on_one_core_are_predicted_to_collapse() -> None:
    model = predicted("redis", "7.0", "graviton3")
    assert model["one_core", 2] < 0.1 * model["one_core", 1]
    lines = report(RATES, model)
    assert len(lines) == 3 * len(PLACES)
    assert "measured ×0.25" in lines[2]
