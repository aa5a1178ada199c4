"""A driver that fills what it misses, on a real engine, and where a table grew."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from evidence.node_life.driver import Driver, hot_shares, zipf_shares
from evidence.node_life.page import jumps
from forecache.calibration.drive.servers import EngineProcess
from forecache.calibration.observe.readers.info import info_fields


def test_shares_add_up_and_hot_keys_get_theirs() -> None:
    assert zipf_shares(1000, 0.7).sum() == pytest.approx(1.0)
    hot = hot_shares(1000, hot_keys=0.1, hot_requests=0.8)
    assert hot[:100].sum() == pytest.approx(0.8)
    assert hot.sum() == pytest.approx(1.0)


def test_a_table_grows_where_memory_jumps_and_until_it_falls() -> None:
    keys = np.arange(20_000, 60_000, 1_000)
    used = 200.0 * keys
    used[10:] += 1e6
    used[15:] -= 1e6
    at = np.arange(len(keys)) / 10.0
    [(grown, more, seconds)] = jumps(np.column_stack([at, keys, used]).tolist())
    assert grown == 30_000
    assert more == pytest.approx(1e6)
    assert seconds == pytest.approx(0.5)


def test_the_driver_fills_what_it_misses_and_knows_what_is_alive(binary: Path) -> None:
    with EngineProcess(binary) as process, process.control() as control:
        sizes = [16 if number % 2 else 70_000 for number in range(200)]
        driver = Driver(process.address("unix"), shares=np.full(200, 1 / 200), value_bytes=sizes)
        driver.read_through(rate_rps=20_000, seconds=0.2)
        stats = info_fields(control.info("stats"))
        there = int(control.command("DBSIZE"))
        # Commands are sent 50 at a time, in which a key may be missed twice.
        assert there <= int(stats["keyspace_misses"]) < 1.5 * there
        reads = int(stats["keyspace_hits"]) + int(stats["keyspace_misses"])
        assert reads > 0
        assert reads % 50 == 0
        driver.write_keys(range(100), expire_at_s=time.time() + 0.15)
        assert driver.alive() == 100
        time.sleep(0.2)
        assert driver.alive() == 0
        assert driver.refused == 0
        driver.close()
