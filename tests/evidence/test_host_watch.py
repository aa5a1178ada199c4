"""Looks at what a host does to its cores between measurements."""

import dataclasses

import pytest

from evidence.live import host_watch
from evidence.live.host_watch import HostWatch
from forecache.hwprofiles import load_host
from forecache.hwprofiles.capture import inspect_machine
from forecache.sim.errors import InputError

HOST = load_host("graviton3-c7g.4xlarge")
MACHINE = inspect_machine()
ALONE = MACHINE.pair is None or MACHINE.usable_cpus < 2


@pytest.mark.skipif(ALONE, reason="needs two cores")
def test_a_profile_takes_its_interruptions_and_wake_ups_from_the_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_watch, "MOST_OTHER", 10.0)
    watching = HostWatch()
    for _ in range(2):
        watching.look(duration_s=0.05)
    seen = watching.seen(HOST)
    assert seen.interruptions is not None
    rates = [rate for _, rate in seen.interruptions.points]
    assert rates == sorted(rates, reverse=True)
    assert seen.wake_curve is not None
    assert seen.kernel == HOST.kernel
    assert seen.speed().interruptions == tuple(seen.interruptions.points)


@pytest.mark.skipif(ALONE, reason="needs two cores")
def test_looks_that_other_programs_disturb_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_watch, "MOST_OTHER", -10.0)
    watching = HostWatch()
    watching.look(duration_s=0.05)
    assert watching.disturbed == 1
    with pytest.raises(InputError, match="found 1 that other programs disturbed"):
        watching.seen(HOST)


def test_one_core_can_not_be_watched_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dataclasses.replace(MACHINE, cpus=MACHINE.cpus[:1], pair=None)
    monkeypatch.setattr(host_watch, "inspect_machine", lambda: one)
    with pytest.raises(InputError, match="two that run at once"):
        HostWatch()
