"""What a benchmark tool takes: factors that were put in come out, and a real tool is measured."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forecache.calibration.drive.servers import find_engine
from forecache.calibration.observe.tool_profile import (
    COUNTED,
    PRIOR_ERRORS,
    TIMED,
    ToolPoint,
    can_count,
    count_tool,
    factors,
    predicted_us,
    profile_of,
    shipped_counts,
    time_tool,
)
from forecache.hwprofiles import load_host
from forecache.hwprofiles.files import dump_yaml
from forecache.models.engines.generator import load_generator
from forecache.sim.errors import InputError

HOST = load_host("graviton3")
PRIOR = load_generator("valkey-benchmark")
COUNTS = shipped_counts(PRIOR)
QUIET = [
    ToolPoint(
        pipeline=given.pipeline,
        clients=given.clients,
        cpu_us=[1.0],
        server_cpu_us=[1.0],
        throughput_rps=[1.0],
        # One client waits for every reply; the engine sleeps as often.
        sleeps_per_request=1.0 / given.pipeline if given.clients == 1 else 0.0,
        server_sleeps_per_request=1.0 / given.pipeline if given.clients == 1 else 0.0,
    )
    for given in TIMED
]


def test_factors_that_were_put_in_come_out() -> None:
    speed = HOST.speed()
    prior = factors(COUNTS, QUIET, speed)
    logs = np.log([1.5, 1.2, 0.9])  # user, kernel, wake
    true_us = predicted_us(COUNTS, QUIET, speed, replace(prior, logs=logs))
    points = [replace(p, cpu_us=[us]) for p, us in zip(QUIET, true_us, strict=True)]
    found = factors(COUNTS, points, speed)
    assert found.factor("kernel") == pytest.approx(1.2, rel=0.02)
    for name, log in zip(PRIOR_ERRORS, logs, strict=True):
        assert abs(np.log(found.factor(name)) - log) < 2 * found.error(name)
    assert predicted_us(COUNTS, points, speed, found) == pytest.approx(true_us, rel=0.02)


def test_a_scenario_takes_the_file_of_a_tool(tmp_path: Path) -> None:
    posterior = factors(COUNTS, QUIET, HOST.speed())
    made = profile_of(
        PRIOR, COUNTS, posterior, name="valkey-benchmark 9.9.9", host=HOST, created="2026-11-23"
    )
    file = tmp_path / "tool.yaml"
    file.write_text(dump_yaml(made.model_dump(mode="json", exclude_defaults=True)))
    assert load_generator(str(file)) == made
    assert made.work["kernel_scale"].source == "tool"
    assert made.generator_work().epoll_changes == PRIOR.generator_work().epoll_changes
    file.write_text("id: x\n")
    with pytest.raises(InputError, match=r"tool\.yaml.*title"):
        load_generator(str(file))


needs_tool = pytest.mark.skipif(
    shutil.which("redis-benchmark") is None, reason="needs redis-benchmark, of Debian's redis-tools"
)


@needs_tool
@pytest.mark.alone
def test_a_real_tool_takes_less_per_request_in_pipelines() -> None:
    tool = Path(str(shutil.which("redis-benchmark")))
    chosen = [given for given in TIMED if given.clients == 50 and given.pipeline in (1, 16)]
    one, many = time_tool(tool, find_engine(None), points=chosen, repetitions=1)
    assert (one.pipeline, many.pipeline) == (1, 16)
    assert 0.0 < many.cpu_us[0] < 0.5 * one.cpu_us[0]
    assert many.throughput_rps[0] > one.throughput_rps[0] > 0.0


@needs_tool
@pytest.mark.skipif(not can_count(), reason="needs valgrind")
def test_calls_of_a_real_tool_are_whole_numbers() -> None:
    tool = Path(str(shutil.which("redis-benchmark")))
    few = [given for given in COUNTED if given.clients == 1 or given.value_bytes > 64][:2]
    found = count_tool(tool, find_engine(None), points=few)
    assert found.poll_rounds == pytest.approx(2.0, abs=0.05)
    assert found.epoll_changes == pytest.approx(round(found.epoll_changes), abs=0.01)
