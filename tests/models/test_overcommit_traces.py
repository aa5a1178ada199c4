"""Recorded demand: layouts, damage, and how machines repeat it."""

import gzip
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forecache.models.over_time.overcommit.demand import TracedDemand, read_trace
from forecache.models.over_time.overcommit.manager import machine_dirtying
from forecache.models.over_time.overcommit.run import run_overcommit
from forecache.models.over_time.overcommit.schema import Machines, OvercommitScenario
from forecache.sim.errors import InputError

DATA = Path(__file__).parent / "data" / "traces"
"""A few lines of our own in each layout."""

POINTS = st.dictionaries(
    st.text("abcXYZ019-", min_size=1, max_size=6),
    st.dictionaries(st.integers(0, 90), st.floats(0, 1e6), min_size=1, max_size=8),
    min_size=1,
    max_size=5,
)
"""Memory of tenants at some minutes."""


@settings(max_examples=50)
@given(points=POINTS, asked=st.booleans())
def test_what_is_written_is_read_again(points: dict[str, dict[int, float]], asked: bool) -> None:
    rows = sorted((60 * m, t, gb) for t, at in points.items() for m, gb in at.items())
    lines = ["time_s,tenant,memory_gb" + ",requests_per_s" * asked]
    lines += [f"{time_s},{tenant},{gb!r}" + f",{2 * gb!r}" * asked for time_s, tenant, gb in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        path.write_text("\n".join(lines) + "\n")
        trace = read_trace(str(path))
    order = list(dict.fromkeys(tenant for _, tenant, _ in rows))
    steps = max(minute for at in points.values() for minute in at) + 1
    assert trace.memory_gb.shape == (len(points), steps)
    for tenant, row in zip(order, trace.memory_gb, strict=True):
        at = points[tenant]
        for minute, gb in enumerate(row):
            past = [m for m in at if m <= minute] or [min(at)]
            assert gb == at[max(past)]
    assert (trace.requests_per_s is not None) == asked
    if trace.requests_per_s is not None:
        assert (trace.requests_per_s == 2 * trace.memory_gb).all()


@settings(max_examples=150)
@given(
    where=st.floats(0, 1),
    bytes_=st.binary(max_size=6),
    layout=st.sampled_from(["csv", "google_2011"]),
)
@example(where=0.5, bytes_=b"\xff\x00", layout="csv")
@example(where=0.5, bytes_=b'"', layout="csv")
def test_damage_is_told_with_file_and_line_or_makes_another_trace(
    where: float, bytes_: bytes, layout: Any
) -> None:
    whole = (DATA / f"{layout}.csv").read_bytes()
    place = int(where * len(whole))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        path.write_bytes(whole[:place] + bytes_ + whole[place + len(bytes_) :])
        told = ""
        try:
            trace = read_trace(str(path), layout)
        except InputError as error:
            told = str(error)
    if told:
        assert str(path) in told
    else:
        assert (trace.memory_gb >= 0).all()
        assert np.isfinite(trace.memory_gb).all()


@pytest.mark.parametrize(
    ("layout", "text", "message"),
    [
        ("csv", "time,tenant,memory_gb\n", "line 1: found 'time,tenant,memory_gb'"),
        ("csv", "time_s,tenant,memory_gb\n", "no rows"),
        ("csv", "", "line 1"),
        ("csv", "time_s,tenant,memory_gb\n0,a,1\n0,a,2\n", "line 3, time_s: found 0; .* rises"),
        ("csv", "time_s,tenant,memory_gb\n0,a,nan\n", "line 2, memory_gb: found 'nan'"),
        ("csv", "time_s,tenant,memory_gb\n0,a,-1\n", "line 2, memory_gb: found '-1'"),
        ("csv", "time_s,tenant,memory_gb\n0,,1\n", "line 2, tenant"),
        ("csv", "time_s,tenant,memory_gb\n0,a\n", "line 2, columns: found 2; valid is 3"),
        ("csv", "time_s,tenant,memory_gb\n0,a,1\n1e12,a,1\n", "take some of the tenants"),
        ("google_2011", "0,300000000,7,0,1,0.1,1.5\n", "canonical memory usage: found '1.5'"),
        ("google_2011", "9,5,7,0,1,0.1,0.5\n", "line 1, end time"),
        ("google_2011", "0,5\n", "line 1, canonical memory usage: found ''"),
        ("google_2011", "", "no rows"),
    ],
)
def test_a_damaged_trace_is_told(tmp_path: Path, layout: Any, text: str, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as told:
        read_trace(str(path), layout)
    assert str(path) in str(told.value)


def test_a_file_that_is_not_there_or_not_whole_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: can't be read"):
        read_trace(str(tmp_path / "none.csv"))
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress((DATA / "csv.csv").read_bytes())[:-12])
    with pytest.raises(InputError, match=r"cut\.csv\.gz: can't be read"):
        read_trace(str(cut))
    no_base = tmp_path / "packing.sqlite"
    no_base.write_text("no base")
    with pytest.raises(InputError, match="vm and vmType"):
        read_trace(str(no_base), "azure_packing")


def test_tasks_of_a_google_job_are_added_up(tmp_path: Path) -> None:
    # Two tasks of job 7, one of which ends in the middle of the second step, and one of job 8.
    trace = read_trace(str(DATA / "google_2011.csv"), "google_2011", machine_gb=100.0)
    assert trace.step_s == 300.0
    assert trace.memory_gb == pytest.approx(np.array([[30.0, 25.0, 20.0], [0.0, 50.0, 50.0]]))
    packed = tmp_path / "part.csv.gz"
    packed.write_bytes(gzip.compress((DATA / "google_2011.csv").read_bytes()))
    again = read_trace(str(packed), "google_2011", machine_gb=100.0)
    assert (again.memory_gb == trace.memory_gb).all()


def test_azure_machines_want_as_much_of_their_memory_as_of_their_cpu() -> None:
    readings, table = DATA / "azure_readings.csv", DATA / "azure_vmtable.csv"
    trace = read_trace(str(readings), "azure_vms", table=str(table))
    # 10% and 50% of 32 GB; 25% of "more than 64".
    assert trace.memory_gb == pytest.approx(np.array([[3.2, 16.0], [16.0, 0.0]]))
    with pytest.raises(InputError, match="trace_table"):
        read_trace(str(readings), "azure_vms")


def test_azure_readings_of_an_unknown_machine_are_told(tmp_path: Path) -> None:
    readings = tmp_path / "readings.csv"
    readings.write_text("0,unknown,1,2,1.5\n")
    with pytest.raises(InputError, match=r"readings.csv, line 1, vm id: found 'unknown'"):
        read_trace(str(readings), "azure_vms", table=str(DATA / "azure_vmtable.csv"))
    readings.write_text("0,vm-a,1,2,101\n")
    with pytest.raises(InputError, match=r"line 1, avg cpu: found '101'.*to 100"):
        read_trace(str(readings), "azure_vms", table=str(DATA / "azure_vmtable.csv"))


def _packing(path: Path, machines: list[tuple[Any, ...]]) -> str:
    with sqlite3.connect(path) as base:
        base.execute(
            "CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime REAL, endtime REAL)"
        )
        base.execute("CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
        base.executemany("INSERT INTO vm VALUES (?, ?, ?, 0, ?, ?)", machines)
        base.executemany(
            "INSERT INTO vmType VALUES (?, ?, ?, 0.1, ?, 0, 0, 0)",
            [(0, 1, 0, 0.25), (1, 1, 1, 0.125), (2, 2, 0, 0.5)],
        )
    base.close()
    return str(path)


def test_packed_machines_of_a_tenant_are_added_up(tmp_path: Path) -> None:
    machines = [(1, 5, 1, -3.0, 0.5), (2, 5, 2, 0.25, None), (3, 6, 1, 1.0, 80.0)]
    path = _packing(tmp_path / "packing.sqlite", machines)
    trace = read_trace(path, "azure_packing", machine_gb=400.0)
    days = (trace.memory_gb.shape[1] * trace.step_s) / 86_400
    assert days == 14.0
    at = {day: trace.memory_gb[:, int(day * 288)].tolist() for day in (0.1, 0.3, 0.6, 1.5)}
    assert at == {0.1: [100, 0], 0.3: [300, 0], 0.6: [200, 0], 1.5: [200, 100]}
    wrong = _packing(tmp_path / "wrong.sqlite", [(4, 5, 9, 0.0, 1.0)])
    with pytest.raises(InputError, match="vm 4, memory of its type: found ''"):
        read_trace(wrong, "azure_packing")


def test_a_trace_is_repeated_with_shifts(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("time_s,tenant,memory_gb\n0,a,1\n0,b,10\n120,a,2\n240,a,3\n240,b,10\n")
    demand = TracedDemand(read_trace(str(file)), machines=200, seed=1)
    seen = np.stack([demand.at(60.0 * minute) for minute in range(5)])
    assert set(np.unique(seen)) == {1.0, 2.0, 3.0, 10.0}
    # Each machine keeps its tenant; shifted ones meet the steps at other times.
    b = (seen == 10).all(axis=0)
    assert ((seen == 10).any(axis=0) == b).all()
    assert 60 < b.sum() < 140
    assert len({tuple(column) for column in seen.T[~b]}) == 5
    assert demand.requests_per_s(0, 60.0) is None


def test_requests_of_a_trace_take_the_place_of_rates() -> None:
    demand = TracedDemand(read_trace(str(DATA / "csv.csv")), machines=50, seed=1)
    asked = {demand.requests_per_s(machine, 0.0) for machine in range(50)}
    assert asked <= {1_000.0, 4_000.0, 500.0}
    assert len(asked) > 1
    rates = {"reads_per_s_per_gb": 90, "writes_per_s_per_gb": 10}
    machines = Machines.model_validate({"count": 1, "requests": rates})
    by_rate, by_trace = machine_dirtying(machines, 4e9), machine_dirtying(machines, 4e9, 400.0)
    assert by_rate(5.0) == pytest.approx(by_trace(5.0))
    assert machine_dirtying(machines, 4e9, 4_000.0)(5.0) > 5 * by_rate(5.0)


def test_a_fleet_lives_on_a_trace() -> None:
    scenario = OvercommitScenario.model_validate(
        {
            "kind": "overcommit",
            "duration_s": 3_600,
            "hosts": {"count": 3, "memory_gb": 100},
            "machines": {
                "count": 12,
                "requests": {"reads_per_s_per_gb": 900, "writes_per_s_per_gb": 100},
            },
            "demand": {"trace": str(DATA / "csv.csv")},
            "policies": {"placement": "unbalanced"},
        }
    )
    run = run_overcommit(scenario, 2)
    wanted = next(s.values for s in run.series if s.name == "wanted")
    assert 12 * 4 <= wanted.min() <= wanted.max() <= 12 * 20
    assert run.to_dict() == run_overcommit(scenario, 2).to_dict()
