"""An answer says by which relative and which hypervisor its host was taken."""

import json
from pathlib import Path

import pytest

from tests.models.conftest import short_runs as short_runs

from .conftest import Run


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("verb", ["simulate", "recommend"])
def test_answers_say_whose_times_they_took(forecache: Run, tmp_path: Path, verb: str) -> None:
    lines = ["host: i3.large", "engine: valkey", "io_threads: 1"]
    lines += ["workload: {clients: 1, keys: 10, value_bytes: 8}"]
    (file := tmp_path / "a.yaml").write_text("\n".join(lines) + "\n")
    shown = " ".join(forecache(verb, file).stdout.split())
    points = json.loads(forecache(verb, file, "--json").stdout)["points"]
    for words in (
        "is taken from skylake-8175m",
        "runs on Xen",
        "Local disks of i3 are not modelled",
    ):
        assert words in shown
        assert all(words in " ".join(point["warnings"]) for point in points)
