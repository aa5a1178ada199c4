"""What results are in a notebook: frames, figures, HTML and the whole distribution of latency."""

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forecache
from forecache.calibration.doctor.abilities import Ability, Diagnosis
from forecache.models.advice.node_answers import Recommended, Simulated
from forecache.models.plan.results import CapacityLimit, NodeHeadroom, TodayAnswer
from forecache.models.results.displayed import Displayed
from forecache.reports.notebook import tables_of
from forecache.reports.tidy import series_columns, unit_suffix
from forecache.sim.errors import InputError
from forecache.sim.installing import install_command
from forecache.sim.plain import Result
from forecache.sim.statistics import Estimate
from tests.made_points import PROVENANCE, about, made_head, made_point, made_recommendation
from tests.reports import series_fixture, study_fixture
from tests.reports.test_node_reports import compared, explained

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

SCENARIO: dict[str, Any] = {
    "host": "graviton3-c7g.large",
    "engine": "valkey",
    "engine_version": "8.0",
    "workload": {"clients": 20, "keys": 1000, "value_bytes": {"sweep": np.array([64, 512])}},
}
MEMORY = {
    "kind": "memory",
    "engine": "valkey",
    "engine_version": "8.1",
    "host": "r7g.large",
    "data": [
        {"type": "string", "keys": {"sweep": range(10**6, 4 * 10**6, 10**6)}, "key_bytes": 16,
         "value_bytes": 100}
    ],
}  # fmt: skip
INFO = Path(__file__).resolve().parents[2] / "examples" / "info" / "node-1.txt"
UNITS = re.compile(r"(_|^)(rps|ms|us|ns|bytes|usd|per|gb|keys|s|utilisation|probability)(_|$)")


@pytest.fixture(scope="module")
def simulated() -> Simulated:
    return forecache.simulate(SCENARIO)  # type: ignore[return-value]


def recommended() -> Recommended:
    points = [made_point(n, throughput_rps=about(n * 1e5)) for n in (1, 4)]
    return Recommended(
        **made_head(),
        points=points,
        recommendation=made_recommendation(),
        provenance=PROVENANCE,
    )


def today() -> TodayAnswer:
    found = forecache.plan(from_info=[INFO], search=False)
    assert isinstance(found, TodayAnswer)
    [node] = found.from_info.nodes
    ceiling = CapacityLimit(
        host="r7g.large",
        engine="valkey",
        engine_version="8.1.1",
        io_threads=1,
        objective={"p99_ms": 1.0},
        ceiling_rps=Estimate(2e5, 1.5e5, 2.5e5),
        nominal_rps=2e5,
        bottleneck="main thread",
        nodes=[NodeHeadroom(node.name, node.peak_rps or 0.0, 0.37)],
        warnings=[],
    )
    return replace(found, ceiling=ceiling)


RESULTS = {
    "recommended": recommended(),
    "study": study_fixture.study(),
    "target": study_fixture.graviton_target(),
    "calibration": study_fixture.calibration(),
    "validation": study_fixture.validation(),
    "over time": series_fixture.as_result(series_fixture.sweep()),
    "memory": forecache.memory(MEMORY),
    "explained": explained(),
    "compared": compared(),
    "today": today(),
    "doctor": Diagnosis(
        version="0.1.0",
        abilities=(
            Ability(id="perf", title="perf", status="no", found="no", helps="observe", get="apt"),
        ),
        took_s=1.0,
    ),
}


def as_rows(frame: Any) -> list[dict[str, Any]]:
    """The rows of a frame of either library; what is missing is None."""
    rows = frame.to_dicts() if isinstance(frame, polars.DataFrame) else frame.to_dict("records")
    missing = (float("nan"), pandas.NA)
    return [
        {
            name: None if any(cell is each for each in missing) or cell != cell else cell
            for name, cell in row.items()
        }
        for row in [{n: None if c is pandas.NA else c for n, c in row.items()} for row in rows]
    ]


@pytest.mark.parametrize("name", RESULTS)
def test_both_libraries_have_the_same_cells(name: str) -> None:
    result: Displayed = RESULTS[name]  # type: ignore[assignment]
    tables = tables_of(result)
    assert tables
    for table in tables:
        of_pandas = result.to_frame(table, library="pandas")
        of_polars = result.to_frame(table, library="polars")
        assert list(of_pandas.columns) == of_polars.columns
        assert as_rows(of_pandas) == as_rows(of_polars)
        cells = [cell for row in as_rows(of_polars) for cell in row.values()]
        assert {type(cell) for cell in cells} <= {int, float, str, bool, type(None)}


def test_a_row_for_each_point_with_units(simulated: Simulated) -> None:
    frame = simulated.to_frame()
    assert frame["value_bytes"].tolist() == [64, 512]
    assert frame["point"].tolist() == [0, 1]
    for row, point in zip(frame.to_dict("records"), simulated.points, strict=True):
        assert row["throughput_rps"] == point.throughput_rps.value
        assert row["throughput_rps_low"] == point.throughput_rps.low
        assert point.p99_ms is not None
        assert row["p99_ms_high"] == point.p99_ms.high
        assert row["bottleneck"] == point.bottleneck
    numbers = [name for name, dtype in frame.dtypes.items() if dtype == "float64"]
    without = [name for name in numbers if not UNITS.search(name)]
    assert without == ["throttled_periods"]  # a share


def test_columns_are_those_of_a_large_sweep(simulated: Simulated, tmp_path: Any) -> None:
    swept = forecache.sweep(SCENARIO, tmp_path / "out", jobs=1)
    of_files = swept.to_frame()
    pandas.testing.assert_frame_equal(of_files, simulated.to_frame(), check_dtype=False)
    assert swept.to_frame(library="polars").columns == list(of_files.columns)
    assert "2 points" in swept._repr_html_()


def test_latency_is_what_the_point_says(simulated: Simulated) -> None:
    for point in simulated.points:
        latency = point.latency
        assert latency is not None
        for p, told in ((0.5, point.p50_ms), (0.99, point.p99_ms)):
            assert told is not None
            assert latency.quantile_by_replication(p).mean() == pytest.approx(told.value)
            assert latency.quantile(p) == pytest.approx(told.value, rel=0.05)
        assert "latency" not in point.to_dict()
    with pytest.raises(InputError, match="found 2 points"):
        _ = simulated.latency
    one = replace(simulated, points=simulated.points[:1])
    assert one.latency == simulated.points[0].latency
    frame = one.latency.to_frame()  # type: ignore[union-attr]
    assert list(frame.columns) == ["latency_ms", "requests", "cdf", "ccdf"]
    assert frame["requests"].sum() == one.latency.count  # type: ignore[union-attr]


def test_a_result_over_time_says_where_its_latency_is() -> None:
    result: Any = RESULTS["over time"]
    for each in (result, result.points[0]):
        with pytest.raises(InputError, match="columns of to_frame"):
            _ = each.latency
    columns = result.to_frame().columns
    assert any(name.startswith("latency") and name.endswith("_ms") for name in columns)


def test_latency_is_that_of_the_recommended_setting(simulated: Simulated) -> None:
    latency = simulated.points[0].latency
    answer = recommended()
    points = [answer.points[0], replace(answer.points[1], latency=latency)]
    assert replace(answer, points=points).latency is latency


def test_the_recommended_row_is_marked() -> None:
    frame = recommended().to_frame()
    assert dict(zip(frame["io_threads"], frame["recommended"], strict=True)) == {1: False, 4: True}
    html = recommended()._repr_html_()
    assert html.count('class="marked"') == 1


def test_series_have_a_row_for_each_step_with_units() -> None:
    result = RESULTS["over time"]
    frame = result.to_frame()  # type: ignore[attr-defined]
    runs = [point.run for point in result.points]  # type: ignore[attr-defined]
    assert len(frame) == sum(len(run.times_s) for run in runs)
    for number, run in enumerate(runs):
        rows = frame[frame["point"] == number]
        assert rows["time_s"].tolist() == run.times_s.tolist()
        for name, series in zip(series_columns(run.series), run.series, strict=True):
            assert np.array_equal(rows[name].to_numpy(float), series.values, equal_nan=True)
    facts = result.to_frame("facts")  # type: ignore[attr-defined]
    assert len(facts) == sum(len(run.facts) for run in runs)
    assert facts["point"].tolist() == [n for n, run in enumerate(runs) for _ in run.facts]


@pytest.mark.parametrize(
    ("unit", "suffix"),
    [("1/s", "per_s"), ("ms", "ms"), ("USD/h", "usd_per_h"), ("%", "percent"), ("", "")],
)
def test_units_end_the_names_of_series(unit: str, suffix: str) -> None:
    assert unit_suffix(unit) == suffix


def test_a_swept_field_with_the_name_of_an_answer_keeps_both() -> None:
    point = made_point(given={"verdict": 3})
    answer = Simulated(**made_head(), points=[point], provenance=PROVENANCE)
    row = answer.to_frame().iloc[0]
    assert (row["given_verdict"], row["verdict"]) == (3, "STABLE")


def test_indices_of_sensitivity_are_a_table() -> None:
    frame = explained().to_frame("sensitivity")
    assert frame["name"].tolist() == ["host.tcp_send_ns", "all others", "clients"]
    assert frame["set"].tolist() == ["uncertain", "uncertain", "choice"]
    assert frame.loc[0, ["total_low", "total", "total_high"]].tolist() == [0.5, 0.6, 0.7]
    assert set(frame["quantity"]) == {"throughput_rps"}
    with pytest.raises(InputError, match=r"valid is points, stages, latency_breakdown, numbers\.$"):
        replace(explained(), sensitivity=None).to_frame("sensitivity")


def test_nodes_of_today_are_a_table_with_their_headroom() -> None:
    answer: Any = RESULTS["today"]
    [node] = answer.to_frame().to_dict("records")
    [load] = answer.from_info.nodes
    assert (node["name"], node["rate_rps"], node["peak_rps"]) == (
        load.name, load.rate_rps, load.peak_rps,
    )  # fmt: skip
    assert node["headroom"] == answer.ceiling.nodes[0].headroom
    found = answer.to_frame("latencies")
    assert list(found.columns) == ["command", "node", "calls", "p50_ms", "p99_ms", "p999_ms"]
    assert found["p99_ms"].tolist() == [
        each.quantiles_ms["p99"] for each in answer.from_info.latencies
    ]
    assert "headroom" not in replace(answer, ceiling=None).to_frame().columns


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_numpy_ranges_and_series_are_swept(library: str) -> None:
    """Arrays of either library, ranges and numbers of NumPy, wherever a file has a list."""
    keys = {
        "pandas": pandas.Series([10**6, 2 * 10**6]),
        "polars": polars.Series([10**6, 2 * 10**6]),
    }[library]
    swept: dict[str, Any] = {
        **MEMORY,
        "data": [
            {"type": "string", "keys": {"sweep": keys}, "key_bytes": np.int64(16),
             "value_bytes": {"sweep": np.arange(100, 301, 100)}}
        ],
    }  # fmt: skip
    frame = forecache.memory(swept).to_frame(library=library)
    columns = frame["data.0.keys"], frame["data.0.value_bytes"]
    assert list(zip(*(each.to_list() for each in columns), strict=True)) == [
        (count, size) for count in (10**6, 2 * 10**6) for size in (100, 200, 300)
    ]


def test_no_interval_is_an_empty_cell() -> None:
    points = [made_point(1), made_point(2, p99_ms=None, verdict="OVERLOADED")]
    answer = Simulated(**made_head(), points=points, provenance=PROVENANCE)
    assert answer.to_frame()["p99_ms"].isna().tolist() == [False, True]
    assert answer.to_frame(library="polars")["p99_ms"].to_list()[1] is None


@pytest.mark.parametrize("name", RESULTS)
def test_results_show_themselves(name: str) -> None:
    html = RESULTS[name]._repr_html_()  # type: ignore[attr-defined]
    assert len(html) < 8000
    whole = ET.fromstring(f"<body>{html}</body>")
    assert whole.find("div[@class='forecache']") is not None
    # Colours are those of the page around it, dark or light.
    assert "color:inherit" in html
    assert not re.search(r"#[0-9a-f]{3,6}\b|color:(?!inherit)\w", html)


def test_what_users_wrote_is_escaped() -> None:
    point = made_point(given={"host": "<script>alert(1)</script>"}, warnings=["a <b> & c"])
    answer = Simulated(**made_head(), points=[point], provenance=PROVENANCE)
    html = answer._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "a &lt;b&gt; &amp; c" in html


def test_long_results_show_their_beginning() -> None:
    points = [made_point(n) for n in range(1, 101)]
    html = Simulated(**made_head(), points=points, provenance=PROVENANCE)._repr_html_()
    assert "88 more rows" in html
    assert html.count("<tr") == 1 + 12


def test_text_is_a_line() -> None:
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    shown, _ = formatter.format(recommended())
    assert shown["text/plain"] == "<Recommended: Run io-threads 4>"
    assert shown["text/html"] == recommended()._repr_html_()


@pytest.mark.parametrize("name", ["recommended", "study", "target", "calibration", "over time"])
def test_figures_are_svg_that_stands_alone(name: str) -> None:
    drawn = RESULTS[name].plot()  # type: ignore[attr-defined]
    for figure in drawn if isinstance(drawn, tuple) else (drawn,):
        svg = ET.fromstring(figure._repr_svg_())
        assert svg.tag.endswith("svg")
        assert "pt" not in svg.attrib["width"]
    if isinstance(drawn, tuple):
        assert drawn._repr_html_().count("<svg") == len(drawn)  # type: ignore[attr-defined]


def test_figures_of_what_was_simulated(simulated: Simulated, tmp_path: Any) -> None:
    figure = simulated.plot()
    assert figure.axes[0].get_xlabel() == "value"
    figure.savefig(tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    latency = simulated.points[0].latency
    assert latency is not None
    assert "p99" in latency.plot()._repr_svg_()
    one = replace(simulated, points=simulated.points[:1])
    with pytest.raises(InputError, match="valid is value_bytes, stages"):
        one.plot("scaling")


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(InputError, match="found 'point'; valid is points, regret, stages"):
        recommended().to_frame("point")
    with pytest.raises(InputError, match="valid is pandas or polars"):
        recommended().to_frame(library="excel")
    with pytest.raises(InputError, match=r"found 'x', .* valid is scaling"):
        recommended().plot("x")
    with pytest.raises(InputError, match="has no figure"):
        replace(RESULTS["memory"], points=RESULTS["memory"].points[:1]).plot()  # type: ignore


@pytest.mark.parametrize(
    ("library", "command"), [(None, install_command("frames")), ("polars", "pip install polars")]
)
def test_a_package_that_is_not_there_is_told(
    library: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forecache.reports import notebook

    def nothing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(notebook, "import_module", nothing)
    with pytest.raises(InputError, match=re.escape(command)):
        recommended().to_frame(library=library)


def test_the_memory_of_each_point() -> None:
    answer = RESULTS["memory"]
    assert isinstance(answer, Result)
    frame = answer.to_frame()  # type: ignore[attr-defined]
    assert frame["data.0.keys"].tolist() == [10**6, 2 * 10**6, 3 * 10**6]
    assert frame["used_memory_bytes"].is_monotonic_increasing
    each = answer.to_frame("populations")  # type: ignore[attr-defined]
    parts = [name for name in each.columns if name.endswith("_bytes_per_key")]
    assert math.isclose(each.loc[0, parts].sum(), each.loc[0, "bytes_per_key"], rel_tol=1e-9)
