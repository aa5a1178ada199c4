"""What the kernel takes on hypervisors, and that answers say whose times they took."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from forecache.hwprofiles import list_hosts, list_instances, load_host
from forecache.hwprofiles.instances import REFERENCE, HypervisorName, catalogue_families, families
from forecache.hwprofiles.schema import HostProfile
from forecache.models.advice.cases import load_cases
from forecache.models.prediction.caveats import not_covered

HYPERVISORS = catalogue_families().hypervisors
GUESTS = {
    "captured-amd-epyc-25-1-2cpus": "zen3-milan",
    "captured-amd-epyc-25-17-2cpus": "zen4-9r14",
    "captured-amd-epyc-26-2-2cpus": "zen5-turin",
}
"""Captured guests of KVM, which halt at once, and the host of the catalogue with that processor."""

FACTORS = ("calls", "waking", "wake_latency")


def times_longer(guest: HostProfile, known: HostProfile, *names: str) -> float:
    took, takes = (sum(getattr(h.kernel, name).best for name in names) for h in (guest, known))
    return took / takes


def test_ranges_of_kvm_hold_what_was_captured_on_three_guests(checkout: Path) -> None:
    found: dict[str, list[float]] = {name: [] for name in FACTORS}
    for name, host_id in GUESTS.items():
        folder = checkout / "evidence" / "generations" / name / "valkey-8.1.1" / "calibration"
        pair = load_host(folder / "host.yaml"), load_host(host_id)
        found["calls"].append(times_longer(*pair, "tcp_recv_ns", "tcp_send_ns"))
        found["waking"].append(times_longer(*pair, "wake_send_ns"))
        found["waking"].append(times_longer(*pair, "block_ns"))
        found["wake_latency"].append(times_longer(*pair, "wake_latency_ns"))
    for name, times in found.items():
        factor = getattr(HYPERVISORS["kvm"], name)
        assert factor.low <= min(times) <= factor.best * 1.1, name
        assert factor.best * 0.9 <= np.median(times), name
        assert max(times) <= factor.high, name


def test_every_hypervisor_has_factors_with_a_reason() -> None:
    assert set(HYPERVISORS) == set(get_args(HypervisorName))
    for name, hypervisor in HYPERVISORS.items():
        for factor in (getattr(hypervisor, factor) for factor in FACTORS):
            assert factor.method
            assert (factor.low == factor.high == 1) == (name == REFERENCE)
    polling, halting = HYPERVISORS["kvm-haltpoll"], HYPERVISORS["kvm"]
    assert polling.waking.best < halting.waking.best
    assert polling.wake_latency.best < halting.wake_latency.best


def test_instances_on_other_hypervisors_take_longer_and_are_less_certain() -> None:
    known, azure = load_host("zen3-milan"), load_host("Standard_D4as_v5")
    factors = HYPERVISORS["azure"]
    for name in ("tcp_send_ns", "epoll_wait_ns", "syscall_ns"):
        before, after = getattr(known.kernel, name), getattr(azure.kernel, name)
        assert after.best == pytest.approx(factors.calls.best * before.best)
        assert after.low < after.best < after.high
        assert after.high / after.low > before.high / before.low
    assert times_longer(azure, known, "block_ns") == pytest.approx(factors.waking.best)
    assert azure.kernel.copy_ns_per_byte == known.kernel.copy_ns_per_byte
    assert load_host("c7g.4xlarge").kernel == load_host("graviton3").kernel
    assert load_host("r3.xlarge").kernel == load_host("ivybridge-e5-2670v2").kernel
    xen = times_longer(load_host("i3.xlarge"), load_host("broadwell-e5-2686v4"), "wake_latency_ns")
    assert xen == pytest.approx(HYPERVISORS["xen"].wake_latency.best)


def box(folder: Path, *lines: str, host: str = "zen3-milan") -> HostProfile:
    """An instance of one's own."""
    given = ["name: box", f"host: {host}", "vcpus: 4", "memory_gib: 16", "baseline_gbit_per_s: 2"]
    (file := folder / "box.yaml").write_text("\n".join([*given, *lines]) + "\n")
    return load_host(file)


@pytest.mark.parametrize(
    ("lines", "taken"),
    [
        ([], None),
        (["provider: aws"], "nitro"),
        (["provider: other"], "kvm"),
        (["provider: alibaba"], "alibaba"),
        (["provider: aws", "hypervisor: xen"], "xen"),
        (["hypervisor: container"], "container"),
    ],
)
def test_an_own_instance_says_what_it_runs_on(
    tmp_path: Path, lines: list[str], taken: HypervisorName | None
) -> None:
    longer = times_longer(box(tmp_path, *lines), load_host("zen3-milan"), "tcp_send_ns")
    expected = 1.0 if taken is None else HYPERVISORS[taken].calls.best
    assert longer == pytest.approx(expected)


def test_stopping_a_tick_takes_nothing_without_a_hypervisor(tmp_path: Path) -> None:
    guest, metal = box(tmp_path).speed(), box(tmp_path, "hypervisor: metal").speed()
    assert guest.tickless_block_scale > metal.tickless_block_scale == 1.0
    assert guest.tickless_latency_scale > metal.tickless_latency_scale == 1.0


def test_what_was_measured_there_stays(tmp_path: Path, checkout: Path) -> None:
    folder = checkout / "evidence" / "generations" / "captured-amd-epyc-26-2-2cpus"
    profile = folder / "valkey-8.1.1" / "calibration" / "host.yaml"
    found = box(tmp_path, "provider: other", host=str(profile))
    assert found.kernel == load_host(profile).kernel


def test_times_of_another_hypervisor_are_not_multiplied_and_said(tmp_path: Path) -> None:
    """Factors are over the reference: a guest of Xen's own times are none of them."""
    known = load_host("ivybridge-e5-2670v2")
    for line in ("provider: azure", "provider: aws"):
        found = box(tmp_path, line, host=known.id)
        assert found.kernel == known.kernel
        assert found.hypervisor == "xen"
        assert f"the times of the kernel are those of a guest of {HYPERVISORS['xen'].title}" in (
            found.caveats
        )
    assert box(tmp_path, "hypervisor: xen", host=known.id).caveats == []


def warnings_of(host: str) -> str:
    """What every prediction for a host says of it."""
    workload = {"clients": 1, "keys": 10, "value_bytes": 8}
    [(case, system)] = load_cases({"host": host, "engine": "valkey", "workload": workload})
    return " ".join(not_covered(case.scenario, system))


def test_predictions_say_which_relative_hypervisor_and_note() -> None:
    """Of every family, by its first instance, and of every host."""
    first = {row.family: row.name for row in reversed(list_instances())}
    for name, family in families().items():
        host, text = load_host(first[name]), warnings_of(first[name])
        assert host.hypervisor is not None
        if name in ("r3", "m1"):  # their hosts' own times are of guests of Xen
            assert (host.hypervisor, "guest of Xen" in text) == ("xen", True)
        elif family.provider != "aws" or name == "i3":
            assert f"runs on {HYPERVISORS[host.hypervisor].title}" in text, name
        else:
            assert (host.hypervisor, "runs on" in text) == (REFERENCE, False), name
        assert family.note.rstrip(".") in text, name
    for plain in list_hosts():
        relative = "" if plain.reuse is None else f"is taken from {plain.reuse.origin}, in wider"
        assert relative in warnings_of(plain.id), plain.id


@pytest.mark.parametrize("family", ["t3", "t4g"])
def test_burstable_instances_say_what_is_left_without_credits(family: str) -> None:
    text = warnings_of(f"{family}.large")
    assert "30% (large)" in text
    assert f"this share times the number of vCPUs, 0.6 for {family}.large" in text
