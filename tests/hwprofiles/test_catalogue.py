"""The catalogue: every number has an origin that holds, and every name finds its host."""

import math
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from evidence.documents.hosts import page as document
from forecache.hwprofiles import list_hosts, list_instances, load_host
from forecache.hwprofiles.files import dump_yaml, load_yaml, parse, read_yaml
from forecache.hwprofiles.quantity import Curve, Quantity, evaluate
from forecache.hwprofiles.schema import HostProfile
from forecache.sim.errors import InputError

HOSTS = {host.id: host for host in list_hosts()}
INSTANCES = {instance.name: instance for instance in list_instances()}
CHECKOUT = Path(__file__).parents[2]


def test_the_hosts_are_there() -> None:
    assert set(HOSTS) == {
        *("graviton2", "graviton3", "graviton4", "altra", "axion", "cobalt-100", "yitian-710"),
        *("skylake-8175m", "skylake-8124m", "cascadelake-8272cl", "broadwell-e5-2686v4"),
        *("icelake-8375c", "sapphire-rapids", "emerald-rapids", "granite-rapids"),
        *("zen3-milan", "zen4-9r14", "zen5-turin"),
        *("ivybridge-e5-2670v2", "raspberry-pi-cm4", "xeon-m1"),
    }


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.id)
def test_derived_numbers_follow_from_their_formulas(host: HostProfile) -> None:
    values = host.values()
    derived = {path: leaf for path, leaf in host.quantities() if leaf.kind == "derived"}
    for path, leaf in derived.items():
        assert leaf.formula is not None
        assert leaf.value == pytest.approx(evaluate(leaf.formula, values), rel=2e-3), path


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.id)
def test_every_source_is_used_and_has_an_address(host: HostProfile) -> None:
    named = {leaf.source for _, leaf in host.origins()} - {None}
    text = " ".join(leaf.method for _, leaf in host.origins())
    unused = {key for key in host.sources if key not in named and key not in text}
    assert not unused
    for key, source in host.sources.items():
        assert source.url is not None or (CHECKOUT / str(source.file)).exists(), key
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", source.accessed or ""), key


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.id)
def test_latencies_grow_outwards_and_sizes_too(host: HostProfile) -> None:
    speed = host.speed()
    assert speed.l1_ns < speed.l2_ns < speed.l3_ns < speed.dram_ns
    assert speed.l1_bytes < speed.l2_bytes < speed.l3_bytes
    assert speed.tcp_send_ns > speed.tcp_recv_ns > speed.syscall_ns
    assert speed.wake_latency_ns > speed.wake_send_ns


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.id)
def test_first_level_latency_is_whole_cycles(host: HostProfile) -> None:
    speed = host.speed()
    cycles = speed.l1_ns * speed.clock_ghz
    assert cycles == pytest.approx(round(cycles), abs=0.1)


@pytest.mark.parametrize("host_id", ["graviton2", "graviton4", "icelake-8375c", "skylake-8175m"])
def test_loaded_latency_starts_at_idle_and_rises(host_id: str) -> None:
    dram = HOSTS[host_id].dram
    assert dram.loaded_latency is not None
    points = sorted(dram.loaded_latency.points)
    assert points[0][1] == pytest.approx(dram.latency_ns.best, rel=0.05)
    assert points[-1][1] > 1.5 * points[0][1]


def test_speed_takes_values_and_leaves_the_rest() -> None:
    host = HOSTS["graviton3"]
    changed = host.speed({"dram_ns": 100.0, "cores": 8})
    assert (changed.dram_ns, changed.cores) == (100.0, 8)
    rest = {"dram_ns", "cores"}
    plain = {key: value for key, value in asdict(host.speed()).items() if key not in rest}
    again = {key: value for key, value in asdict(changed).items() if key not in rest}
    assert math.isnan(plain.pop("price_usd_per_hour"))
    assert math.isnan(again.pop("price_usd_per_hour"))
    assert plain == again
    with pytest.raises(InputError, match="'dram_ns'"):
        host.speed({"drams_ns": 1.0})


@pytest.mark.parametrize("name", [*HOSTS, "c7g.4xlarge", "m7i.large"])
def test_uncertain_ranges_hold_the_speed(name: str) -> None:
    host = load_host(name)
    speed = asdict(host.speed())
    ranges = host.uncertain()
    assert {"user_ipc", "tcp_send_ns"} <= set(ranges)
    assert ("tlb_reach_bytes" in ranges) == (host.tlb.l2_entries.low is not None)
    for field, (low, value, high) in ranges.items():
        assert low <= value <= high
        assert speed[field] == pytest.approx(value)
    drawn = host.speed({field: low for field, (low, _, _) in ranges.items()})
    assert drawn.user_ipc == ranges["user_ipc"][0]


def test_a_walk_curve_and_neighbours_become_part_of_the_speed() -> None:
    host = HOSTS["graviton3"]
    plain = host.speed()
    assert plain.walk_curve == ()
    assert plain.l3_fills_per_us == 0.0
    assert "l3_fills_per_us" not in host.uncertain()
    curve = Curve(
        kind="measured",
        source="cac-g3",
        x_unit="B",
        y_unit="ns",
        points=[(2.0**31, 40.0), (2.0**28, 10.0)],
    )
    fills = Quantity(
        value=20.0, low=5.0, high=60.0, unit="1/us", kind="measured", source="cac-g3", method="test"
    )
    changed = host.model_copy(update={"walk_curve": curve, "l3_fills_per_us": fills})
    speed = changed.speed()
    assert speed.walk_curve == ((2.0**28, 10.0), (2.0**31, 40.0)), "by size"
    assert speed.l3_fills_per_us == 20.0
    assert changed.uncertain()["l3_fills_per_us"] == (5.0, 20.0, 60.0)
    assert changed.speed({"l3_fills_per_us": 7.0}).l3_fills_per_us == 7.0
    assert hash(speed) != hash(plain)
    with pytest.raises(InputError, match="'walk_curve'"):
        host.speed({"walk_curve": 1.0})
    assert parse(HostProfile, load_yaml(changed.to_yaml()), file="x") == changed


# What a slower processor leaves as it is: sizes, counts, prices, bandwidths, the network, how long
# the scheduler was told to let a thread run, and what others do on the host.
NO_TIMES = {
    *(
        "host_id",
        "cores",
        "threads_per_core",
        "busy_sibling_speed",
        "user_ipc",
        "repeat_ipc_ratio",
        "parallel_misses",
        "reorder_window",
        "peer_curve",
        "short_sleep_share",
        "tickless_block_scale",
        "tickless_latency_scale",
    ),
    *("l1_bytes", "l2_bytes", "l3_bytes", "tlb_reach_bytes", "memory_gib", "price_usd_per_hour"),
    *("dram_bandwidth_gb_per_s", "l3_fills_per_us", "interruptions", "wake_spread"),
    *("network_gbit_per_s", "network_flow_gbit_per_s", "network_packets_per_s"),
    *("network_burst_gbit_per_s", "network_credit_gbit"),
    *("network_one_way_us", "network_mtu_bytes", "time_slice_us", "timer_tick_us"),
}


def test_a_slower_host_takes_longer_for_everything_that_is_a_time() -> None:
    host = load_host("graviton4-c8g.4xlarge")  # with a curve of loaded latency
    walks = Curve(
        kind="measured", source="aws", x_unit="B", y_unit="ns", points=[(1e8, 9), (1e9, 40)]
    )
    messages = Curve(
        kind="measured", source="aws", x_unit="B", y_unit="ns", points=[(64, 700), (16384, 1100)]
    )
    curves = {"walk_curve": walks, "recv_curve": messages, "send_curve": messages}
    before = host.model_copy(update=curves).speed()
    for name in ("loaded_latency", *curves):
        assert getattr(before, name)
    was, now = asdict(before), asdict(before.slower(1.5))
    for name in was.keys() - NO_TIMES:
        if name == "clock_ghz":
            assert now[name] == pytest.approx(was[name] / 1.5)
        elif isinstance(was[name], tuple):
            assert now[name] == tuple((x, pytest.approx(1.5 * ns)) for x, ns in was[name])
        else:
            assert now[name] == pytest.approx(1.5 * was[name]), name
            assert was[name] > 0, name
    for name in NO_TIMES:
        assert now[name] == was[name], name


def test_instances_have_the_cores_memory_network_and_price_of_their_size() -> None:
    host = load_host("graviton3-c7g.4xlarge")
    speed = host.speed()
    assert (host.id, host.instance) == ("graviton3-c7g.4xlarge", "c7g.4xlarge")
    assert (speed.cores, speed.memory_gib, speed.network_gbit_per_s) == (16, 32.0, 7.5)
    assert speed.price_usd_per_hour == pytest.approx(0.58)
    # A load that lasts has the baseline; a burst is for transfers.
    assert host.uncertain()["network_gbit_per_s"] == (7.5, 7.5, 7.5)
    assert speed.network_burst_gbit_per_s == 15
    assert load_host("c7g.4xlarge") == host


def test_a_vcpu_of_an_intel_instance_is_a_hyperthread() -> None:
    host = load_host("m7i.4xlarge")
    speed = host.speed()
    assert (speed.cores, speed.threads_per_core, host.topology.cores.best) == (16, 2, 8.0)
    assert 0.5 < speed.busy_sibling_speed < 0.8
    assert any("hyperthread" in note for note in host.notes)
    assert load_host("r7g.4xlarge").speed().busy_sibling_speed == 1.0


def test_a_small_instance_may_have_to_share_what_all_tenants_use() -> None:
    low, value, high = load_host("c7g.4xlarge").uncertain()["l3_bytes"]
    assert (low, value, high) == (8 * 2**20, 32 * 2**20, 32 * 2**20)
    assert "l3_bytes" not in load_host("c7g.16xlarge").uncertain()


def test_every_instance_loads() -> None:
    for name, instance in INSTANCES.items():
        host = load_host(name)
        speed = host.speed()
        assert (speed.cores, speed.threads_per_core) == (
            instance.vcpus,
            instance.threads_per_core,
        ), name
        assert load_host(f"{instance.host_id}-{name}") == host


@pytest.mark.parametrize("family", sorted({row.family for row in INSTANCES.values()}))
def test_an_instance_survives_its_own_file(family: str) -> None:
    name = next(name for name, row in INSTANCES.items() if row.family == family)
    host = load_host(name)
    assert parse(HostProfile, load_yaml(host.to_yaml()), file=name) == host


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("gravitron3", "'graviton3'"),
        ("c7g.4xlrge", "'c7g.4xlarge'"),
        ("graviton3-c7g.5xlarge", "graviton3-c7g.4xlarge"),
        ("graviton2-c7g.4xlarge", "runs on graviton3"),
        ("zen5-turin-c4-standard-8", "runs on emerald-rapids"),
        ("c4-standard-7", "'c4-standard-8'"),
        ("Standard_D8s_v9", "'Standard_D8s_v6'"),
        ("missing.yaml", "no such file"),
        ("", "no host"),
    ],
)
def test_unknown_names_get_help(name: str, part: str) -> None:
    with pytest.raises(InputError) as caught:
        load_host(name)
    assert part in str(caught.value)


def test_a_profile_file_is_a_host(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(HOSTS["graviton2"].to_yaml())
    assert load_host(file) == load_host(str(file)) == HOSTS["graviton2"]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"sources": {}}, "a source listed in this file"),
        ({"clock_gzh": 2.0}, "'clock_ghz'"),
        ({"isa": "riscv"}, "'x86-64' or 'aarch64'"),
        ({"caches": []}, "'caches'"),
        ({"user_ipc": {"value": 2, "unit": "1", "kind": "assumed", "method": "m"}}, "a range"),
        (
            {"clock_ghz": {"value": 4, "unit": "GHz", "kind": "published", "source": "cac-g3"}},
            "the value its formula gives",
        ),
        (
            {
                "core_to_core_ns": {
                    "value": 4,
                    "unit": "ns",
                    "kind": "derived",
                    "formula": "10 / clok_ghz",
                }
            },
            "clok_ghz",
        ),
        (
            {"clock_ghz": {"value": 0, "unit": "GHz", "kind": "published", "source": "cac-g3"}},
            "'clock_ghz': found 0.0; valid is a number above zero",
        ),
        (
            {
                "parallel_misses": {
                    "value": 16,
                    "unit": "misses",
                    "kind": "assumed",
                    "low": -12,
                    "high": 28,
                    "method": "a sign too many",
                }
            },
            "'parallel_misses.low': found -12.0; valid is a number above zero",
        ),
    ],
)
def test_a_wrong_profile_says_what_is_wrong(
    tmp_path: Path, change: dict[str, object], part: str
) -> None:
    data = load_yaml(HOSTS["graviton3"].to_yaml()) | change
    file = tmp_path / "wrong.yaml"
    file.write_text(dump_yaml(data))
    with pytest.raises(InputError) as caught:
        load_host(file)
    assert str(file) in str(caught.value)
    assert part in str(caught.value)


def test_the_page_is_what_the_catalogue_says() -> None:
    page = (CHECKOUT / "docs" / "hosts.md").read_text(encoding="utf-8")
    assert page == document(), "run `make docs`"


def test_no_number_stems_from_what_models_are_validated_with() -> None:
    """Throughputs of `role: validation` points must not turn up in the reasons of the catalogue."""
    text = document().replace(" ", "").replace(",", "")
    files = sorted((CHECKOUT / "calibration" / "validate" / "datasets").glob("*.yaml"))
    assert len(files) > 10
    for file in files:
        for point in read_yaml(file)["points"]:
            rate = (point.get("observed") or {}).get("throughput_rps")
            if point.get("role") == "validation" and rate:
                assert str(round(rate)) not in text, (file.name, rate)


def interrupted(*points: tuple[float, float]) -> dict[str, object]:
    """A profile with a curve of interruptions, as plain data."""
    host = HOSTS["graviton3"]
    curve = {"x_unit": "us", "y_unit": "1/s", "kind": "measured", "points": list(points)}
    curve["source"] = next(iter(host.sources))
    return {**host.model_dump(mode="json", exclude_defaults=True), "interruptions": curve}


def test_interruptions_are_sorted_and_no_number_to_replace() -> None:
    host = parse(HostProfile, interrupted((50.0, 8.0), (5.0, 300.0)), file="x")
    assert host.speed().interruptions == ((5.0, 300.0), (50.0, 8.0))
    assert HOSTS["graviton3"].speed().interruptions == ()
    with pytest.raises(InputError, match="'interruptions'"):
        host.speed({"interruptions": 1.0})


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (((5.0, 10.0), (10.0, 20.0)), "don't rise with duration"),
        (((5.0, 10.0), (10.0, -1.0)), "not negative"),
        (((5.0, 10.0), (5.0, 5.0)), "different durations above zero"),
        (((0.0, 10.0), (5.0, 5.0)), "different durations above zero"),
    ],
)
def test_curves_no_host_can_have_are_refused(
    points: tuple[tuple[float, float], ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        parse(HostProfile, interrupted(*points), file="x")


def test_small_instances_are_allowed_fewer_packets() -> None:
    small, large = load_host("c7g.large").speed(), load_host("c7g.2xlarge").speed()
    assert large.network_packets_per_s == pytest.approx(4 * small.network_packets_per_s, rel=1e-4)
    low, best, high = load_host("c7g.2xlarge").uncertain()["network_packets_per_s"]
    assert 736_860 < low < best < high, "what one of that size moved with saturated CPUs"
    assert load_host("c7g.16xlarge").uncertain()["network_packets_per_s"][2] == 20e6


def test_what_aws_says_of_connections_and_packets_is_in_all_its_hosts() -> None:
    others = {name for name, row in INSTANCES.items() if row.provider != "aws"}
    for name in {*HOSTS, *INSTANCES} - {"raspberry-pi-cm4"} - others:
        speed = load_host(name).speed()
        assert speed.network_mtu_bytes == 9001, name
        assert speed.network_flow_gbit_per_s == 5, name


def test_an_instance_is_headed_with_every_processor_that_it_may_have() -> None:
    """The provider promises none for these families; the first is simulated."""
    may_differ = {
        instance.family: load_host(name)
        for name, instance in INSTANCES.items()
        if instance.burst_gbit_per_s and load_host(name).processors
    }
    azure = {"Dv2", "Dv3", "Dsv3", "Dv4", "Dsv4", "Dv5", "Dsv5", "Ev5", "Esv5", "Dasv5"}
    assert set(may_differ) == {"m5", "c5", "r5", "t3", "n1", "n2"} | azure
    for host in may_differ.values():
        first = host.processors[0]
        assert len(host.processors) > 1
        assert (
            first
            in f"{host.microarchitecture} {HOSTS[host.id.split(f'-{host.instance}')[0]].title}"
        )
        assert host.title.startswith(f"{host.instance} (")
        assert f"; simulated: {first})" in host.title
        assert all(name in host.title for name in host.processors)
    assert load_host("n2-standard-8").title == (
        "n2-standard-8 (Ice Lake or Cascade Lake; simulated: Ice Lake)"
    )
    assert load_host("r5.large").title == ("r5.large (Skylake or Cascade Lake; simulated: Skylake)")
    assert "Ice Lake" not in load_host("m6i.large").title
