"""A host that one engine has found, and predictions of others on it."""

from pathlib import Path

import numpy as np
import pytest

from forecache.calibration.bundle.bundle import Bundle
from forecache.calibration.bundle.points import Conditions
from forecache.calibration.observe.design import design_points
from forecache.calibration.observe.observe import anchored_by
from forecache.hwprofiles import load_host
from forecache.hwprofiles.schema import HostProfile
from forecache.models.engines.generator import load_generator
from forecache.models.engines.profile import load_engine
from forecache.models.prediction.system import System
from tests.calibration.known_engine import HOST, observed, simulated, written

KERNEL = 1.7
"""How many times as long system calls take an engine here as its profile says."""


def slower_kernel(host: HostProfile, factor: float) -> HostProfile:
    names = ("tcp_send_ns", "tcp_recv_ns", "epoll_wait_ns", "epoll_event_ns")
    leaves = {
        name: leaf.model_copy(update={"value": factor * leaf.best, "low": None, "high": None})
        for name in names
        if (leaf := getattr(host.kernel, name)) is not None
    }
    return host.model_copy(update={"kernel": host.kernel.model_copy(update=leaves)})


@pytest.fixture(scope="module")
def anchored(tmp_path_factory: pytest.TempPathFactory) -> HostProfile:
    """As Valkey 9.1 finds a host whose calls take longer than its profile says."""
    engine, true = load_engine("valkey", "9.1"), slower_kernel(HOST, KERNEL)
    given = [each for each in design_points("quick") if each.rate_share is None]
    points = [observed(each, result=simulated(each, engine, true)) for each in given]
    folder = tmp_path_factory.mktemp("anchor") / "bundle"
    return anchored_by(Bundle.load(written(folder, points)))


def test_what_one_engine_finds_is_charged_to_another(anchored: HostProfile) -> None:
    engine, true = load_engine("valkey", "8.1"), slower_kernel(HOST, KERNEL)
    errors = []
    for pipeline, clients in ((1, 50), (2, 20), (8, 50), (32, 50)):
        given = Conditions(command="get", keys=1000, pipeline=pipeline, clients=clients)
        cpu = [
            simulated(given, engine, host).server_cpu_us_per_request
            for host in (true, HOST, anchored)
        ]
        errors.append([abs(us / cpu[0] - 1.0) for us in cpu[1:]])
    before, after = np.median(errors, axis=0)
    assert before > 0.15
    assert after < 0.06


def test_an_anchored_host_says_so_and_can_be_read_again(
    anchored: HostProfile, tmp_path: Path
) -> None:
    assert anchored.sources["bundle"].title.startswith("forecache profile --anchor, valkey 9.1")
    sent = anchored.kernel.tcp_send_ns
    assert sent.low is not None
    assert sent.high is not None
    assert sent.low < KERNEL * HOST.kernel.tcp_send_ns.best < sent.high
    file = tmp_path / "host.yaml"
    file.write_text(anchored.to_yaml(), encoding="utf-8")
    system = System(load_host(file), load_engine("redis", "7.0"), load_generator("forecache"))
    assert system.basis == "anchored"
    assert System(HOST, system.engine, system.generator).basis == "catalogue"
