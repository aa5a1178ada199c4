"""Terminal output: fits 80 columns, keeps commands whole, treats strings as text."""

import io
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from forecache.calibration.validate.comparison import ComparedPoint
from forecache.models.advice.node_answers import Simulated
from forecache.models.results.points import Point
from forecache.reports.builders.node import points_parts
from forecache.reports.document import Warnings
from forecache.reports.terminal import print_answer, print_parts
from forecache.reports.text.formats import continued
from forecache.reports.text.points import point_warnings, subtitle_phrase
from forecache.reports.text.settings import engine_name
from forecache.sim.statistics import Estimate
from tests.made_points import made_point
from tests.reports.study_fixture import (
    calibration,
    graviton_points,
    graviton_target,
    recommendation,
    study,
    validation,
)


def _printed(show: Callable[[Console], None], width: int = 80) -> str:
    buffer = io.StringIO()
    show(Console(file=buffer, width=width, force_terminal=False))
    return buffer.getvalue()


def _print_points(points: Sequence[Point], console: Console) -> None:
    print_parts([*points_parts(points), Warnings(point_warnings(points))], console)


def _show_study(console: Console) -> None:
    print_answer(study(), console)


def _show_points(console: Console) -> None:
    _print_points(graviton_points(), console)


def _show_recommendation(console: Console) -> None:
    print_answer(graviton_target(), console)


def _show_calibration(console: Console) -> None:
    print_answer(calibration(), console)


def _show_validation(console: Console) -> None:
    print_answer(validation(), console)


ALL = [_show_study, _show_points, _show_recommendation, _show_calibration, _show_validation]


@pytest.mark.parametrize("show", ALL)
def test_fits_80_columns_without_cutting_anything(show: Callable[[Console], None]) -> None:
    for line in _printed(show).splitlines():
        assert len(line) <= 80, line
        assert "…" not in line


def test_study_shows_each_recommendation_and_the_accuracy() -> None:
    text = _printed(_show_study)
    assert "Run io-threads 1" in text
    assert "Run io-threads 6" in text
    assert "1.18 M requests/s (1.05–1.31); p99 0.93 ms; limited by the main thread" in text
    assert "21% less (12–31%)" in text
    assert "7 of its values are assumed ranges" in text
    assert "held out" in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_commands_can_be_copied_at_any_width(width: int) -> None:
    command = recommendation().benchmark_command
    assert len(command) > 80
    for show in (_show_study, _show_recommendation):
        printed = _printed(show, width=width)
        assert shlex.split(command) in [
            shlex.split(line.strip())
            for line in printed.replace("\\\n", "").splitlines()
            if "-c " in line
        ]


def test_what_stands_between_quotes_stays_on_one_line() -> None:
    words = ["tool", *(f"--name{n}" for n in range(9)), "--command='SET a b c d e f g'", "--last"]
    lines = continued(" ".join(words), 30).split(" \\\n")
    assert shlex.split(" ".join(lines)) == shlex.split(" ".join(words))
    assert any("'SET a b c d e f g'" in line for line in lines)
    assert all(len(line) <= 30 for line in lines if "SET" not in line)


def test_recommended_row_is_marked() -> None:
    marked = [line for line in _printed(_show_recommendation).splitlines() if "▶" in line]
    assert len(marked) == 1
    assert marked[0].split()[1] == "6"


@pytest.mark.parametrize("width", range(36, 100, 8))
def test_a_curve_keeps_setting_throughput_and_limit_at_any_width(width: int) -> None:
    target = graviton_target()
    printed = _printed(lambda console: print_answer(target, console), width)
    curve = printed[: printed.index("Why not another")]
    assert "io-threads" in curve
    assert "…" not in curve
    for point in target.points:
        threads = str(point.given["io_threads"])
        rate = f"{point.throughput_rps.value / 1e6:.2f}"
        lines = [line.split() for line in curve.splitlines()]
        assert any(threads in words for words in lines)
        if point.throughput_rps.value >= 1e6:
            assert any(rate in words for words in lines)
    assert curve.split().count("main") >= 5


def test_points_show_only_what_the_sweep_varies() -> None:
    points = [replace(point, given=point.given | {"clients": 650}) for point in graviton_points()]
    text = _printed(lambda console: _print_points(points, console))
    assert "clients" not in text
    assert "io-threads" in text


def test_two_swept_fields_fit_80_columns_and_cut_no_word() -> None:
    points = [
        replace(
            point,
            given={"pipeline": number, "value_bytes": 64 * number},
            bottleneck="network",
        )
        for number, point in enumerate(graviton_points())
    ]
    text = _printed(lambda console: _print_points(points, console))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.count(" network ") == len(points)
    for word in ("pipeline", "value", "verdict"):
        assert word in text


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "given",
    [
        {"persistence.fsync_ms": 0.05},
        {},
        {
            "host": "c7g.4xlarge",
            "engine_version": "8.0",
            "workload.pipeline": 16,
            "value_bytes": 65536,
        },
    ],
)
def test_every_point_keeps_its_setting_limit_and_verdict_at_any_width(
    given: dict[str, Any], width: int
) -> None:
    points = [
        replace(
            point,
            given={
                name: value if isinstance(value, str) else value + number
                for name, value in given.items()
            },
            bottleneck="interrupts",
            verdict="OVERLOADED",
            warnings=[],
        )
        for number, point in enumerate(graviton_points())
    ]
    if "host" in given:
        points[0].given.update(host="sapphire-rapids", engine_version="9.1")
    text = _printed(lambda console: _print_points(points, console), width)
    assert all(len(line) <= width for line in text.splitlines())
    assert text.count("interrupts") == text.count("overloaded") == len(points)
    words = text.split()
    for point in points:
        assert {str(value) for value in point.given.values()} <= set(words)
    assert "p99" in words


def test_where_a_row_does_not_fit_a_point_is_a_block_with_all_figures() -> None:
    given = {"host": "profiles/" + "x" * 50 + ".yaml"}
    points = [replace(point, given=given) for point in graviton_points()[:2]]
    text = _printed(lambda console: _print_points(points, console))
    assert all(len(line) <= 80 for line in text.splitlines())
    for name in ("host", "p50", "p99", "main", "I/O", "load", "limit", "verdict"):
        assert sum(line.split()[:1] == [name] for line in text.splitlines()) == 2
    assert text.count("x" * 50) == 2


def test_swept_hosts_and_engines_are_counted_in_the_title() -> None:
    points = [
        made_point(given={"host": host, "engine_version": version})
        for host in ("a", "b")
        for version in ("8.0", "8.1", "9.1")
    ]
    target = graviton_target()
    engine = engine_name(target.engine).split()[0]
    assert subtitle_phrase(target, points) == f"2 hosts, 3 versions of {engine}"
    answer = Simulated(
        scenario=target.scenario,
        host=target.host,
        engine=target.engine,
        points=points,
        provenance=target.provenance,
    )
    text = _printed(lambda console: print_answer(answer, console))
    first, second, *_ = (line.strip() for line in text.splitlines())
    assert first.startswith("6 points, up to ")
    assert second == f"2 hosts, 3 versions of {engine}"


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        (["redis 8.6", "valkey 9.1"], "2 engines"),
        (["valkey 8.0", "valkey 9.1"], "2 versions of valkey"),
        (["redis 8.6", "valkey 8.0", "valkey 9.1"], "3 versions of 2 engines"),
    ],
)
def test_versions_of_one_engine_are_not_engines(engines: list[str], said: str) -> None:
    target = graviton_target()
    points = [made_point(given={"engine": each}) for each in engines]
    assert subtitle_phrase(target, points) == f"{target.host.title}, {said}"


def test_a_warning_names_the_setting_that_brings_it_once() -> None:
    points = [
        made_point(
            given={"host": host, "engine": engine, "io_threads": threads},
            warnings=["reused"] * (engine == "b") + ["odd"] * (host + engine == "xa"),
        )
        for host in ("x", "y")
        for engine in ("a", "b")
        for threads in (1, 2)
    ]
    assert point_warnings(points) == [
        "host x, engine a, io-threads 1; host x, engine a, io-threads 2: odd",
        "engine b: reused",
    ]


def test_a_missing_check_says_why() -> None:
    advice = replace(
        recommendation(), benchmark_command="", no_benchmark_command="No tool sends these."
    )
    target = graviton_target(recommendation=advice)
    text = _printed(lambda console: print_answer(target, console))
    assert "Check it with\nNo tool sends these." in text


def test_validation_shows_errors_coverage_and_knee() -> None:
    text = _printed(_show_validation)
    assert "throughput" in text
    assert "100%" in text
    assert "Knee (command get): io-threads 9 observed, 6 predicted" in text
    first, second, *_ = text.splitlines()
    assert first.startswith("throughput: median error ")
    assert second == "synthetic dataset"
    assert "graviton4 stands in for a host that is unnamed or has no profile" in text
    assert "fitted: host ×1.10 (0.90–1.30)" in text
    assert "held out" in text


def test_a_calibration_says_what_its_data_can_not_tell() -> None:
    words = " ".join(_printed(_show_calibration).split())
    assert "What the data can't tell The data determine 10 of 18 independent combinations" in words
    for sentence in calibration().identifiability.words:
        assert f"- {sentence}" in words


def test_brackets_are_text_and_not_markup() -> None:
    regret = [replace(recommendation().regret[0], why_not="[blink]why")]
    target = graviton_target(
        name="[red]name",
        warnings=["[/] unbalanced"],
        recommendation=replace(recommendation(), conf="save [/x]", regret=regret),
    )
    made = study(title="[bold]title[/bold]", targets=[target])
    text = _printed(lambda console: print_answer(made, console))
    for literal in ("[bold]title[/bold]", "[red]name", "[/] unbalanced", "save [/x]", "[blink]why"):
        assert literal in text


@pytest.mark.parametrize(
    "show",
    [
        lambda console: print_answer(replace(calibration(), points=[], parameters=[]), console),
        lambda console: print_answer(
            replace(validation(), points=[], summary={}, knee={}), console
        ),
    ],
)
def test_empty_results_print(show: Callable[[Console], None]) -> None:
    text = _printed(show)
    assert "None" not in text
    assert "nan" not in text


def test_terminal_does_not_load_matplotlib() -> None:
    code = (
        "import importlib, sys, forecache.reports.terminal\n"
        "from forecache.reports.builders import BUILDERS\n"
        "for builder in BUILDERS.values():\n"
        "    module = builder.partition('.')[0]\n"
        "    importlib.import_module('forecache.reports.builders.' + module)\n"
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_missing_estimates_show_as_unknown() -> None:
    points = [made_point(p50_ms=None, p99_ms=None)]
    text = _printed(lambda console: _print_points(points, console))
    assert "–" in text


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_names_of_a_dataset_are_never_cut(width: int) -> None:
    names = ["elasticache-valkey", "valkey"]
    points = [
        ComparedPoint(
            index=i,
            given={
                "engine": name,
                "engine_version": f"8.0-dict-per-slot-{i}",
                "keys": 10**6 + i,
            },
            role="validation",
            observed={"throughput_rps": 1_491_244_824 + i},
            predicted={"throughput_rps": Estimate(1_282_756_080 + i, 1e9, 2e9)},
            band="saturated",
        )
        for i, name in enumerate(names)
    ]
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, force_terminal=False)
    made = replace(validation(), points=points, summary={})
    print_answer(made, console)
    text = buffer.getvalue()
    for i, name in enumerate(names):
        assert name in text
        assert f"8.0-dict-per-slot-{i}" in text
    assert all(len(line) <= width for line in text.splitlines())


def test_a_study_says_that_its_observation_was_disturbed() -> None:
    from types import SimpleNamespace
    from typing import cast

    from forecache.calibration.bundle.bundle import Bundle
    from forecache.models.engines.profile import load_engine
    from forecache.reports.study import _observation_warnings

    engine = load_engine("valkey", "9.7")
    assert engine.taken_as_words is not None
    manifest = SimpleNamespace(
        # What the version is taken as, the predictions of a study say.
        warnings=[engine.taken_as_words, "115 of 157 repetitions are flagged `disturbed`"],
        left_out=["get P1: too large"],
    )
    found = _observation_warnings(cast(Bundle, SimpleNamespace(manifest=manifest)), engine)
    assert "115 of 157 repetitions" in found[0]
    assert "Repeat the study" in found[1]
    assert found[2] == "Not observed: get P1: too large"
    made = study(warnings=found)
    assert "Repeat the study" in _printed(lambda console: print_answer(made, console))
