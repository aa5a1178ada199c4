"""A loaded engine to look at: wrapped, driven, always stopped."""

import time
from pathlib import Path

import pytest

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.observe.profilers.session import (
    exact_rates,
    fixed_load,
    session,
    steady_load,
)
from forecache.calibration.observe.readers.info import difference

POINT = Conditions(command="get", pipeline=4, clients=5)


def test_a_wrapper_becomes_the_server(binary: Path, tmp_path: Path) -> None:
    seen = tmp_path / "pid"
    wrapper = ["sh", "-c", f'echo $$ >"{seen}"; exec "$@"', "sh"]
    with session(binary, [POINT], wrapper=wrapper) as on:
        pid = on.process.pid
        assert int(seen.read_text()) == pid
        assert on.control.config()["hz"] == "1"
        assert on.roles()[pid] == "main"
        assert on.stages.generation == "valkey-9.1"
    assert not Path(f"/proc/{pid}").exists()


def test_loads_are_counted_by_the_engine(binary: Path) -> None:
    with session(binary, [POINT]) as on:
        looks = [on.info()]
        for requests in (100, 500):
            fixed_load(on, POINT, requests=requests)
            looks.append(on.info())
        served = [difference(looks[i], looks[i + 1], "total_commands_processed") for i in (0, 1)]
        assert served == [101, 501]  # one INFO each
        rates = exact_rates(looks, requests=400)
        assert rates["reads_per_request"] == pytest.approx(1 / 4)
        assert rates["writes_per_request"] == pytest.approx(1 / 4)
        with steady_load(on, POINT) as steady:
            time.sleep(0.1)
        assert steady.rates["reads_per_request"] == pytest.approx(1 / 4, rel=0.05)
        assert steady.throughput_rps > 0
        pid = on.process.pid
    assert not Path(f"/proc/{pid}").exists()


def test_what_a_version_does_not_report_is_absent() -> None:
    looks = [{"total_reads_processed": str(n)} for n in (10, 20, 50)]
    rates = exact_rates(looks, requests=10)
    assert rates == {
        "reads_per_request": 2.0,
        "writes_per_request": None,
        "event_loops_per_request": None,
    }


def test_an_error_while_looking_stops_everything(binary: Path) -> None:
    pids = []

    def look() -> None:
        with session(binary, [POINT]) as on, steady_load(on, POINT):
            pids.append(on.process.pid)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look()
    assert not Path(f"/proc/{pids[0]}").exists()
