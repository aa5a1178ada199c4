"""What the kernel takes on guests of other hypervisors than AWS's."""

from pathlib import Path

import numpy as np
import pytest

from forecache.hwprofiles import load_host
from forecache.hwprofiles.instances import catalogue_families
from forecache.hwprofiles.schema import HostProfile

ELSEWHERE = catalogue_families().kernel_elsewhere
GUESTS = {
    "captured-amd-epyc-25-1-2cpus": "zen3-milan",
    "captured-amd-epyc-25-17-2cpus": "zen4-9r14",
    "captured-amd-epyc-26-2-2cpus": "zen5-turin",
}
"""Captured guests of another provider, and the host of the catalogue with that processor."""


def times_longer(guest: HostProfile, known: HostProfile, *names: str) -> float:
    took, takes = (sum(getattr(h.kernel, name).best for name in names) for h in (guest, known))
    return took / takes


def test_ranges_hold_what_was_captured_on_three_guests(checkout: Path) -> None:
    found: dict[str, list[float]] = {"calls": [], "waking": [], "wake_latency": []}
    for name, host_id in GUESTS.items():
        folder = checkout / "evidence" / "generations" / name / "valkey-8.1.1" / "calibration"
        pair = load_host(folder / "host.yaml"), load_host(host_id)
        found["calls"].append(times_longer(*pair, "tcp_recv_ns", "tcp_send_ns"))
        found["waking"].append(times_longer(*pair, "wake_send_ns"))
        found["waking"].append(times_longer(*pair, "block_ns"))
        found["wake_latency"].append(times_longer(*pair, "wake_latency_ns"))
    for name, times in found.items():
        factor = getattr(ELSEWHERE, name)
        assert factor.low <= min(times) <= factor.best * 1.1, name
        assert factor.best * 0.9 <= np.median(times), name
        assert max(times) <= factor.high, name


def test_instances_of_other_providers_take_longer_and_are_less_certain() -> None:
    known, azure = load_host("zen3-milan"), load_host("Standard_D4as_v5")
    for name in ("tcp_send_ns", "epoll_wait_ns", "syscall_ns"):
        before, after = getattr(known.kernel, name), getattr(azure.kernel, name)
        assert after.best == pytest.approx(ELSEWHERE.calls.best * before.best)
        assert after.low < after.best < after.high
        assert after.high / after.low > before.high / before.low
    assert azure.kernel.block_ns.best == pytest.approx(
        ELSEWHERE.waking.best * known.kernel.block_ns.best
    )
    assert azure.kernel.copy_ns_per_byte == known.kernel.copy_ns_per_byte
    assert load_host("c7g.4xlarge").kernel == load_host("graviton3").kernel


@pytest.mark.parametrize("provider", [None, "aws", "other"])
def test_an_own_instance_says_whose_guest_it_is(tmp_path: Path, provider: str | None) -> None:
    lines = ["name: box", "host: zen3-milan", "vcpus: 4", "memory_gib: 16"]
    lines += ["baseline_gbit_per_s: 2"]
    lines += [] if provider is None else [f"provider: {provider}"]
    (file := tmp_path / "box.yaml").write_text("\n".join(lines) + "\n")
    longer = times_longer(load_host(file), load_host("zen3-milan"), "tcp_send_ns")
    assert longer == pytest.approx(1.0 if provider != "other" else ELSEWHERE.calls.best)


def test_what_was_measured_there_stays(tmp_path: Path, checkout: Path) -> None:
    folder = checkout / "evidence" / "generations" / "captured-amd-epyc-26-2-2cpus"
    profile = folder / "valkey-8.1.1" / "calibration" / "host.yaml"
    lines = ["name: box", f"host: {profile}", "vcpus: 2", "memory_gib: 16"]
    lines += ["baseline_gbit_per_s: 2", "provider: other"]
    (file := tmp_path / "box.yaml").write_text("\n".join(lines) + "\n")
    assert load_host(file).kernel == load_host(profile).kernel
