"""Hosts that take over the numbers of a relative, in wider ranges."""

from pathlib import Path

import pytest
import yaml

from forecache.hwprofiles import HostProfile, list_hosts, load_host
from forecache.hwprofiles.files import parse
from forecache.hwprofiles.quantity import evaluate
from forecache.sim.errors import InputError

REUSED = [host for host in list_hosts() if host.reuse is not None]
FILE = """\
id: mine
title: A relative
isa: x86-64
microarchitecture: Sapphire Rapids
reuse: {from: sapphire-rapids, widen: 2, reason: a test}
sources: {}
clock_ghz: {value: 4, unit: GHz, kind: assumed, low: 3, high: 4, method: a test}
"""


def mine(tmp_path: Path, text: str = FILE) -> HostProfile:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return load_host(file)


def test_times_are_assumed_in_a_wider_range(tmp_path: Path) -> None:
    # What engines taught about a host is that host's alone.
    base, host = load_host("sapphire-rapids", fitted=False), mine(tmp_path)
    before, after = base.kernel.tcp_send_ns, host.kernel.tcp_send_ns
    assert (after.value, after.kind) == (before.value, "assumed")
    assert before.low is not None
    assert before.high is not None
    assert (after.low, after.high) == (before.low / 2, before.high * 2)
    assert after.method.startswith("as of sapphire-rapids, in a range 2 times as wide; ")
    assert host.core_to_core_ns.kind == "assumed"
    assert base.core_to_core_ns.kind == "measured"


def test_cycles_follow_the_files_own_clock(tmp_path: Path) -> None:
    host = mine(tmp_path)
    first = host.caches[0].latency_ns
    assert first.formula == "5 / clock_ghz"
    assert first.value == pytest.approx(evaluate("5 / clock_ghz", host.values()), rel=1e-5)
    assert host.speed().l1_ns == pytest.approx(5 / 4)


def test_what_relatives_share_stays_as_it_is(tmp_path: Path) -> None:
    base, host = load_host("sapphire-rapids"), mine(tmp_path)
    assert host.network == base.network
    assert host.tlb.page_bytes == base.tlb.page_bytes
    assert host.caches[0].size_bytes == base.caches[0].size_bytes
    assert host.topology.threads_per_core == base.topology.threads_per_core


def test_what_was_found_of_the_other_alone_is_not_taken_over(tmp_path: Path) -> None:
    host = mine(tmp_path, FILE.replace("sapphire-rapids", "icelake-8375c"))
    assert load_host("icelake-8375c").dram.loaded_latency is not None
    assert host.dram.loaded_latency is None
    assert host.notes == []


def test_a_completed_profile_stands_alone(tmp_path: Path) -> None:
    host = mine(tmp_path)
    assert mine(tmp_path, host.to_yaml()) == host
    assert parse(HostProfile, yaml.safe_load(host.to_yaml()), file="x") == host


@pytest.mark.parametrize("host", REUSED, ids=lambda host: host.id)
def test_a_reused_host_is_less_certain_than_the_other(host: HostProfile) -> None:
    assert host.reuse is not None
    base, own = load_host(host.reuse.origin).uncertain(), host.uncertain()
    assert len(REUSED) >= 7
    for name in ("tcp_send_ns", "syscall_ns", "wake_latency_ns", "tlb_walk_ns"):
        (low, _, high), (before_low, _, before_high) = own[name], base[name]
        assert high / low > 1.6 * before_high / before_low, name


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("from: sapphire-rapids", "from: saphire-rapids", "'reuse.from': found 'saphire-rapids'"),
        ("id: mine", "id: sapphire-rapids", "valid is another host of the catalogue"),
        ("widen: 2", "widen: 0.5", "field 'reuse.widen': found 0.5; valid is"),
        (", reason: a test}", "}", "the field 'reuse.reason' is missing"),
        ("clock_ghz", "clok_ghz", "unknown field 'clok_ghz'; did you mean 'clock_ghz'"),
        ("value: 4", "value: GHz", "field 'clock_ghz.value': found 'GHz'; valid is"),
        ("value: 4, unit", "value: [4], unit", "field 'clock_ghz.value': found [4]; valid is"),
        ("low: 3, high: 4", "low: -3", "field 'clock_ghz': found a mapping with value"),
        ("unit: GHz, kind: assumed", "kind: assumed", "in this profile"),
        ("sources: {}", "sources: [a page]", "field 'sources': found ['a page']; valid is"),
        (
            "sources: {}",
            "caches: [{name: L9}]",
            "field 'caches[0].name': found 'L9'; valid are those of the other host: L1, L2, L3",
        ),
    ],
)
def test_a_wrong_reuse_says_what_is_wrong(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        mine(tmp_path, FILE.replace(before, after))
    assert message in str(caught.value)
