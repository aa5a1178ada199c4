"""A killed worker loses its run only, and what is asked again need not run again."""

import json
import os
import signal
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from pydantic import Field

from forecache.hwprofiles.record import Record
from forecache.models.over_time import kept_runs, simulate_scenario
from forecache.models.over_time.kept_runs import run_key
from forecache.models.over_time.simulate_scenario import simulate
from forecache.models.results.series import Fact, Run, RunsOverTime
from forecache.models.scenario.source import Kind
from forecache.sim.errors import IncompleteError, InputError

KILLED_AT = "FORECACHE_TEST_KILLED_AT"
DATA = {"kind": "steps", "height": {"sweep": [1, 2, 3, 4, 5]}}


class Steps(Record):
    """A kind for these tests."""

    kind: Literal["steps"]
    name: str | None = None
    height: int = Field(ge=0)
    trace: str | None = None


def run_steps(scenario: Steps, seed: int, progress: simulate_scenario.Progress) -> Run:
    progress("one step")
    if os.environ.get(KILLED_AT) == str(scenario.height):
        os.kill(os.getpid(), signal.SIGKILL)
    values = np.random.default_rng([seed, scenario.height]).random(3)
    return Run(np.arange(3.0), [], facts=[Fact("sum", float(values.sum()), "m")])


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        simulate_scenario,
        "KINDS",
        {"steps": Kind("simulate", f"{__name__}:Steps", f"{__name__}:run_steps")},
    )


def as_text(result: RunsOverTime) -> str:
    return json.dumps({**result.to_dict(), "provenance": None})


@pytest.mark.parametrize("seeds", [1, 2])
def test_after_a_kill_the_rest_is_there_and_asked_again_all_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: int
) -> None:
    undisturbed = simulate(DATA, seeds=seeds)
    monkeypatch.setenv(KILLED_AT, "4")
    with pytest.raises(IncompleteError, match="height 4") as caught:
        simulate(DATA, seeds=seeds, jobs=2, resume=tmp_path)
    assert caught.value.exit_code == 4
    partial = caught.value.result
    # Another worker may have been in a run when the pool broke; nothing wrong is told.
    assert {"height": 4} not in [point.given for point in partial.points]
    kept = len(list(tmp_path.iterdir()))
    assert kept >= 1
    monkeypatch.delenv(KILLED_AT)
    told: list[str] = []
    again = simulate(DATA, seeds=seeds, jobs=2, resume=tmp_path, progress=told.append)
    assert as_text(again) == as_text(undisturbed)
    assert told[0].startswith(f"found {kept} of {5 * seeds} runs")
    assert len(told) == 1 + 5 * seeds - kept


def test_a_damaged_result_is_one_error(tmp_path: Path) -> None:
    simulate(DATA, resume=tmp_path)
    file = sorted(tmp_path.iterdir())[0]
    whole = file.read_text()
    for damaged in (whole[:-9], "", "[]", whole.replace("0.", "1.", 1), '{"key": 1}', "[" * 99999):
        file.write_text(damaged)
        with pytest.raises(InputError, match=rf"{file.name}: is damaged"):
            simulate(DATA, resume=tmp_path)


def test_a_key_has_all_that_a_result_depends_on(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("1\n")
    scenario = Steps(kind="steps", height=1, trace=str(trace))
    keys = [
        run_key(scenario, seed=1, whole=True),
        run_key(scenario, seed=2, whole=True),
        run_key(scenario, seed=1, whole=False),
        run_key(scenario.model_copy(update={"height": 2}), seed=1, whole=True),
    ]
    assert keys[0] == run_key(scenario, seed=1, whole=True)
    trace.write_text("2\n")
    keys.append(run_key(scenario, seed=1, whole=True))
    assert len(set(keys)) == len(keys)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't be created"):
        simulate(DATA, resume=tmp_path / "file" / "kept")


def test_what_an_older_model_left_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room_of_this_test"
    (room / "native").mkdir(parents=True)
    (room / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(kept_runs, "_ROOMS", (room.name,))
    seen = set()
    names = ("load.py", "engine.yaml", "instances.csv", "native/flows.c", "native/cluster.h")
    for name in names:
        (room / name).write_text("a model\n")
        seen.add(kept_runs.source_digest.__wrapped__())
    assert len(seen) == len(names)
