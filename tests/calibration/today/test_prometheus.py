"""Metrics over time as looks at INFO: a week of a fleet read back, restarts, damage."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecache.calibration.today.demand import read_today
from forecache.calibration.today.prometheus import is_prometheus, nodes_of_metrics
from forecache.models.plan.results import FromInfo
from forecache.sim.errors import InputError

STEP_S, START_S = 300.0, 1_700_000_000.0
SHARES = {"get": 0.7, "hset": 0.2, "set": 0.1}
US = {"get": 1.0, "hset": 2.5, "set": 1.5}


def rate_at(time_s: float, node: int) -> float:
    """A day's wave, of a node that has a tenth more than the one before."""
    day = math.sin(2.0 * math.pi * time_s / 86_400.0)
    return 5_000.0 * (1.0 + 0.1 * node) * (1.0 + 0.6 * day)


def week(nodes: int = 3, *, steps: int = 7 * 288, restart: int | None = None) -> dict[str, Any]:
    """What `query_range` answers of a fleet whose rates are known."""
    result = []
    for node in range(nodes):
        labels = {"instance": f"redis://10.0.0.{node}:6379", "job": "redis"}
        series: dict[tuple[str, str, str], list[list[Any]]] = {}
        total, at_s = 0.0, START_S
        for step in range(steps + 1):
            if restart == step:
                total = 0.0
            values: dict[tuple[str, str, str], float] = {
                ("redis_commands_processed_total", "", ""): total,
                ("redis_cpu_user_seconds_total", "", ""): total * 4e-6,
                ("redis_cpu_sys_seconds_total", "", ""): total * 3e-6,
                ("redis_memory_used_bytes", "", ""): 5e8,
                ("redis_memory_used_rss_bytes", "", ""): 6e8,
                ("redis_connected_clients", "", ""): 120.0,
                ("redis_net_input_bytes_total", "", ""): total * 80,
                ("redis_net_output_bytes_total", "", ""): total * 200,
                ("redis_keyspace_hits_total", "", ""): total * 0.7,
                ("redis_keyspace_misses_total", "", ""): 0.0,
                ("redis_db_keys", "db", "db0"): 1e6,
                ("redis_db_keys_expiring", "db", "db0"): 5e5,
                ("redis_instance_info", "redis_version", "7.0.15"): 1.0,
            }
            for name, share in SHARES.items():
                values["redis_commands_total", "cmd", name] = total * share
                spent_s = total * share * US[name] / 1e6
                values["redis_commands_duration_seconds_total", "cmd", name] = spent_s
            for key, value in values.items():
                series.setdefault(key, []).append([at_s, f"{value:.6f}"])
            total += STEP_S * rate_at(at_s + STEP_S / 2, node)
            at_s += STEP_S
        for (name, label, said), pairs in series.items():
            own = {label: said} if label else {}
            result.append({"metric": {"__name__": name, **labels, **own}, "values": pairs})
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def read(tmp_path: Path, *answers: Any) -> FromInfo:
    files = []
    for number, answer in enumerate(answers):
        files.append(tmp_path / f"metrics-{number}.json")
        files[-1].write_text(answer if isinstance(answer, str) else json.dumps(answer))
    return read_today(files)


def test_a_week_of_a_fleet_is_read_back(tmp_path: Path) -> None:
    found = read(tmp_path, week())
    mean = 5_000.0 * (1.0 + 1.1 + 1.2)
    operations = found.demand["operations"]
    for name, share in SHARES.items():
        asked = operations[name]
        rate = asked["a_second"] if isinstance(asked, dict) else asked
        assert rate == pytest.approx(mean * share, rel=0.02)
    assert found.demand["peak_to_mean"] == pytest.approx(1.6, rel=0.02)
    assert [node.rate_rps for node in found.nodes] == pytest.approx([5e3, 5.5e3, 6e3], rel=0.02)
    times = found.nodes[0].times
    assert times is not None
    assert times.busy == pytest.approx(5_000 * 7e-6, rel=0.02)
    assert found.demand["clients_per_node"] == 120
    assert found.today["engine_version"] == "7.0.15"
    told = {each.field: each.value for each in found.known}
    assert told["busiest hour of a day"].startswith(("5 to 6 h UTC", "6 to 7 h UTC"))
    assert abs(float(told["growth a week"].rstrip("%"))) < 0.5


def test_what_came_before_a_restart_is_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, week(1, steps=288, restart=200))
    [node] = found.nodes
    assert node.times is not None
    assert node.times.span_s == pytest.approx(88 * STEP_S)


def test_metrics_of_one_node_may_come_in_several_files(tmp_path: Path) -> None:
    whole = week(1, steps=24)
    result = whole["data"]["result"]
    halves = [{"status": "success", "data": {"result": part}} for part in (result[:7], result[7:])]
    once, twice = read(tmp_path, whole), read(tmp_path, *halves)
    assert once.demand == twice.demand


def test_the_text_of_an_exporter_is_one_look(tmp_path: Path) -> None:
    text = """# TYPE redis_commands_total counter
redis_commands_total{cmd="get"} 900
redis_commands_total{cmd="set"} 100
redis_commands_duration_seconds_total{cmd="get"} 0.0009
redis_commands_duration_seconds_total{cmd="set"} 0.0002
redis_commands_processed_total 1000
redis_uptime_in_seconds 100
redis_memory_used_bytes 9e+07
redis_memory_used_rss_bytes 9.9e+07
redis_connected_clients 12
redis_db_keys{db="db0"} 1000
redis_db_keys{db="db1"} 0
redis_db_keys_expiring{db="db0"} 250
redis_instance_info{redis_version="7.0.15",role="master",maxmemory_policy="noeviction"} 1
"""
    found = read(tmp_path, text)
    assert found.demand["operations"] == {"get": 9.0, "set": 1.0}
    assert found.nodes[0].keys == 1000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"status": "error", "data": {"result": []}}', "no answer of Prometheus"),
        ('{"data": {"result": [{"values": []}]}}', "a series with a metric"),
        ('{"data": {"result": [{"metric": {"__name__": "up"}, "values": [[1, "1"]]}]}}', "redis_"),
        ("redis_uptime_in_seconds five\n", "a number"),
        ("redis_uptime_in_seconds 5\n", "redis_instance_info"),
        ("redis_up 1\nnot a metric at all\n", "a metric, as"),
    ],
)
def test_damaged_metrics_are_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read(tmp_path, text)
    assert "metrics-0.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet='redis_{}="cmd 0123456789.\n#', max_size=200))
def test_any_text_is_refused_in_one_sentence_or_read(text: str) -> None:
    assert isinstance(is_prometheus(text), bool)
    try:
        nodes_of_metrics([("file", text)])
    except InputError as error:
        said = str(error)
    else:
        said = "file"
    assert said.startswith("file")
