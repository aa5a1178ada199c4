"""Nothing is fitted to what may only be predicted: not one number behind a validation."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.validate.dataset import (
    Dataset,
    list_datasets,
    load_dataset,
    read_dataset,
    why_not_predicted,
)
from forecache.calibration.validate.node_dataset import (
    FactorPosterior,
    factors_for,
    fit_posterior,
    system_of,
)
from forecache.calibration.validate.validate import (
    factor_problems,
    held_out_numbers,
    leaves_of,
    profile_problems,
    provenance_of,
    significant,
    validate,
)
from forecache.hwprofiles import list_hosts, load_host
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import list_generators
from forecache.models.engines.profile import EngineProfile, list_engines, load_engine

DATASETS = [dataset.id for dataset in list_datasets()]
PREDICTED = [dataset.id for dataset in list_datasets() if why_not_predicted(dataset) is None]
CURVE = "valkey-8.1.1-c8g-unix-p1"
HELD_OUT = 5
"""Position of a held-out point of that curve."""


def posterior(*points: int) -> FactorPosterior:
    """A fit of no factors, to these points."""
    return FactorPosterior([], np.zeros(0), np.zeros((0, 0)), points)


@pytest.mark.parametrize("name", PREDICTED)
def test_no_number_of_a_validation_rests_on_a_held_out_point(name: str) -> None:
    dataset, cases = load_dataset(name)
    systems = [system_of(case.scenario, path=name) for case in cases]
    calibration = tuple(case.index for case in cases if case.role == "calibration")
    origins = provenance_of(cases, systems, posterior(*calibration), beside={}).to_dict()
    assert origins["problems"] == []
    roles = [point.role for point in dataset.points]
    assert {roles[index] for index in origins["calibration_points"]} <= {"calibration"}
    assert all(roles[index] == "validation" for index in origins["held_out_points"])
    assert len(origins["held_out_points"]) == roles.count("validation")
    for profile in origins["profiles"].values():
        assert sum(profile["kinds"].values()) > 0


def test_every_number_of_every_profile_has_an_origin_and_none_is_held_out() -> None:
    """Also those of profiles that no dataset names; each can be put in the place of another."""
    hosts = [(f"host {each.id}", each) for each in list_hosts()]
    engines = [(f"engine {each.id}", each) for each in list_engines()]
    tools = [(f"load generator {each.id}", each) for each in list_generators()]
    for name, profile in [*hosts, *engines, *tools]:
        assert profile_problems(name, profile) == []
        leaves = list(leaves_of(profile))
        assert len(leaves) > 5
        for path, leaf in leaves:
            assert leaf.source or leaf.method or leaf.kind == "derived", f"{name}, {path}"


def held_out_in(bundle: Bundle, datasets: Sequence[Dataset]) -> list[str]:
    """Held-out measurements in a bundle that an engine's work was fitted to."""
    measured = significant(
        f"{value:.12g}"
        for point in bundle.points
        for row in point.repetitions
        for value in row.model_dump().values()
        # Whole numbers are counts, which no dataset gives; they fall together by chance.
        if isinstance(value, float)
    )
    return [
        f"points[{index}] of {dataset.id}"
        for dataset in datasets
        for index, value in held_out_numbers(dataset)
        if value in measured
    ]


def test_bundles_hold_no_held_out_measurement(checkout: Path) -> None:
    observed = {each.observed.bundle: each for each in list_engines() if each.observed is not None}
    assert len(observed) >= 3
    for bundle, profile in observed.items():
        loaded = Bundle.load(checkout / "evidence" / "bundles" / str(bundle))
        assert held_out_in(loaded, list_datasets()) == [], profile.id
        # The same measurements, had they been published and held out, would be found.
        value = loaded.points[0].repetitions[0].throughput_rps
        published = dataset_of(CURVE, HELD_OUT, throughput_rps=float(f"{value:.12g}"))
        assert held_out_in(loaded, [published]) == [f"points[{HELD_OUT}] of {CURVE}"]


def test_what_was_fitted_for_the_page_may_be_fitted(checkout: Path) -> None:
    """The committed results, with the points of the same machine that other datasets lent."""
    roles = {each.id: [point.role for point in each.points] for each in list_datasets()}
    artefacts = sorted((checkout / "docs" / "accuracy").glob("published-*.json"))
    assert len(artefacts) >= 5
    for path in artefacts:
        result = json.loads(path.read_text(encoding="utf-8"))
        own, origins = result["dataset"]["id"], result["provenance"]
        fitted = [(own, origins["calibration_points"])]
        fitted += origins.get("same_machine_points", {}).items()
        fitted += [(own, factor["points"]) for factor in result["fitted"]]
        for profile in origins["profiles"].values():
            fitted += profile["points"].items()
        for dataset, points in fitted:
            assert {roles[dataset][index] for index in points} <= {"calibration"}, path.name
        held_out = {i for i, role in enumerate(roles[own]) if role == "validation"}
        assert set(origins["held_out_points"]) == held_out
        assert origins["problems"] == []


# --- what it would find -------------------------------------------------------------------------


def dataset_of(name: str, index: int, **observed: float) -> Dataset:
    """A shipped dataset, one of whose points was measured differently."""
    dataset = read_dataset(name)[0]
    points = list(dataset.points)
    points[index] = points[index].model_copy(update={"observed": observed})
    return dataset.model_copy(update={"points": points})


def changed_host(change: dict[str, Any], **source: Any) -> HostProfile:
    """Graviton4 with another `unix_send_ns`, whose source is as given."""
    data = load_host("graviton4").model_dump(mode="json", exclude_defaults=True)
    data["kernel"]["unix_send_ns"].update(change)
    data["sources"]["tidwall"].update(source)
    return HostProfile.model_validate(data)


@pytest.mark.parametrize(
    ("change", "source", "part"),
    [
        ({}, {"points": {CURVE: [0, HELD_OUT]}}, f"points\\[{HELD_OUT}\\] of {CURVE} is held out"),
        ({}, {"points": None}, "also gives the measurements of .*does not say which were used"),
        (
            {},
            {"points": None, "url": "https://www.GitHub.com/tidwall/cache-benchmarks/tree/main#p1"},
            "also gives the measurements of .*does not say which were used",
        ),
        ({}, {"points": {"valkey-8.1.1": [0]}}, "points of valkey-8.1.1, which is no dataset"),
        ({}, {"points": {CURVE: [99]}}, r"points\[99\] of .*, which has 24"),
        ({"method": "from 586,602 GETs a second"}, {}, "586602 is points"),
        ({"method": "as in valkey PR 2078"}, {}, "speaks of PR 2078, .* add it to the sources"),
        (
            {"method": f"the middle of {CURVE}", "source": None, "kind": "assumed"},
            {"url": "https://x.y"},
            "speaks of",
        ),
        ({"value": 586602, "high": 586603}, {}, "586602 is points"),
    ],
)
def test_a_host_that_knows_a_held_out_point_is_found(
    change: dict[str, Any], source: dict[str, Any], part: str
) -> None:
    assert profile_problems("host", changed_host({})) == []
    problems = profile_problems("host graviton4", changed_host(change, **source))
    assert all(problem.startswith("host graviton4") for problem in problems)
    assert any(re.search(part, problem) for problem in problems), problems


def test_an_engine_that_cites_a_published_curve_is_found() -> None:
    data = load_engine("valkey-8.1").model_dump(mode="json", exclude_defaults=True, by_alias=True)
    url = read_dataset("valkey-pr2078-512B")[0].sources[0].url
    data["sources"]["curve"] = {"title": "the curve", "url": url}
    data["work"]["shared_lines"].update(source="curve", method="moved until the curve fits")
    [problem] = profile_problems("engine valkey-8.1", EngineProfile.model_validate(data))
    assert "source curve: it also gives the measurements of valkey-pr2078-512B" in problem
    data["sources"]["curve"]["points"] = {}
    assert profile_problems("engine valkey-8.1", EngineProfile.model_validate(data)) == []
    data["sources"]["curve"]["points"] = {"valkey-pr2078-512B": [2]}
    [problem] = profile_problems("engine valkey-8.1", EngineProfile.model_validate(data))
    assert "points[2] of valkey-pr2078-512B is held out" in problem


def test_factors_are_fitted_to_calibration_points_only() -> None:
    _, cases = load_dataset(CURVE)
    assert factor_problems(cases, posterior(0, 1)) == []
    [problem] = factor_problems(cases, posterior(0, HELD_OUT))
    assert f"points[{HELD_OUT}] is held out" in problem
    wrong = cases[HELD_OUT]
    with pytest.raises(ValueError, match=rf"role calibration only, not \[{HELD_OUT}\]"):
        fit_posterior(
            factors_for(cases, host_known=True),
            [(wrong, system_of(wrong.scenario, path=CURVE))],
            seed=1,
        )


def test_a_result_says_which_points_were_fitted(tmp_path: Path) -> None:
    dataset = yaml.safe_load(
        """
id: mine
title: mine
sources: [{id: mine, file: run.csv}]
scenario:
  host: graviton3-c7g.4xlarge
  engine: valkey
  engine_version: "8.0"
  workload: {clients: 20}
points:
- {given: {command: get}, observed: {throughput_rps: 200000}, role: validation}
- {given: {command: get}, observed: {throughput_rps: 190000}, role: calibration}
"""
    )
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(dataset), encoding="utf-8")
    result = validate(path).to_dict()
    assert result["provenance"]["calibration_points"] == [1]
    assert result["provenance"]["held_out_points"] == [0]
    assert [point["index"] for point in result["points"]] == [0, 1]
    assert result["fitted"]
    assert all(factor["points"] == [1] for factor in result["fitted"])
    assert result["warnings"] == []
