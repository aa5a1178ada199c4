"""The tables of instances: what holds in all rows, and what a wrong row is told."""

import csv
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from forecache.hwprofiles import HostProfile, Instance, list_hosts, list_instances, load_host
from forecache.hwprofiles.instances import (
    SHARE_OF_LIMIT,
    InstanceRow,
    catalogue_families,
    families,
    read_instances,
    read_rows,
    region_prices,
)
from forecache.hwprofiles.quantity import Quantity
from forecache.sim.errors import InputError

INSTANCES = {row.name: row for row in list_instances()}
HOSTS = {host.id: host for host in list_hosts()}
HEAD = (
    "family,name,vcpus,memory_gib,baseline_gbit_per_s,burst_gbit_per_s,usd_per_hour,region,priced"
)

BY_FAMILY: dict[str, list[Instance]] = defaultdict(list)
for instance in INSTANCES.values():
    BY_FAMILY[instance.family].append(instance)


def test_every_family_has_instances_and_its_host_exists() -> None:
    assert set(BY_FAMILY) == set(families())
    for name, family in families().items():
        assert family.host in HOSTS, name


def test_the_families_of_four_clouds_are_there() -> None:
    aws = {f"{kind}{gen}" for kind in "cmr" for gen in ("6g", "7g", "8g", "6i", "7i", "8i")}
    aws |= {f"{kind}{gen}" for kind in "cmr" for gen in ("5", "6a", "7a", "8a")}
    aws |= {"i3", "i4i", "t3", "t4g", "r3", "m1"}
    google = {"c3", "c4", "c4a", "c4d", "n1", "n2", "n4", "t2a"}
    azure = {"Dv2", "Dv3", "Dsv3", "Dv4", "Dsv4"}
    azure |= {"Dv5", "Dsv5", "Dsv6", "Ev5", "Esv5", "Esv6", "Dpsv5", "Dpsv6", "Dasv5", "Dasv6"}
    assert set(families()) == aws | google | azure | {"g7", "g8y"}
    rows = Counter(row.provider for row in INSTANCES.values())
    assert rows["aws"] >= 315
    assert rows["google"] >= 180
    assert rows["azure"] >= 118
    assert rows["alibaba"] >= 17


@pytest.mark.parametrize("family", sorted(BY_FAMILY))
def test_bandwidth_grows_with_size_and_a_burst_is_no_less_than_the_baseline(family: str) -> None:
    rows = sorted(BY_FAMILY[family], key=lambda row: row.vcpus)
    steady = [row.steady_gbit_per_s for row in rows]
    assert None not in steady
    assert steady == sorted(steady, key=lambda value: value or 0.0)
    for row in rows:
        if row.baseline_gbit_per_s is not None:
            assert row.burst_gbit_per_s is not None
            assert row.baseline_gbit_per_s <= row.burst_gbit_per_s, row.name
        assert (row.network == "limit") == (row.baseline_gbit_per_s is None), row.name


@pytest.mark.parametrize("family", [name for name in sorted(BY_FAMILY) if name not in ("r3", "m1")])
def test_a_price_is_so_much_a_vcpu_and_so_much_a_gib(family: str) -> None:
    """A digit mistaken anywhere in a table would show here."""
    rows = [row for row in BY_FAMILY[family] if row.usd_per_hour is not None]
    ratios = sorted({row.memory_gib / row.vcpus for row in rows})
    for row in rows:
        assert row.usd_per_hour is not None
        if row.provider == "google" and family != "t2a":
            expected = _by_vcpu_and_gib(rows, row)
        else:
            largest = max(rows, key=lambda other: other.memory_gib)
            assert largest.usd_per_hour is not None
            size = "memory_gib" if family in ("t3", "t4g") else "vcpus"
            share = getattr(row, size) / getattr(largest, size)
            expected = share * largest.usd_per_hour
        assert row.usd_per_hour == pytest.approx(expected, rel=2.5e-3), (row.name, ratios)


def _by_vcpu_and_gib(rows: list[Instance], row: Instance) -> float:
    """The price that two other rows of different ratios imply."""
    first, *others = [other for other in rows if other.name != row.name]
    ratio = first.memory_gib / first.vcpus
    second = max(others, key=lambda other: abs(other.memory_gib / other.vcpus - ratio))
    one, two = first.usd_per_hour, second.usd_per_hour
    assert one is not None
    assert two is not None
    scale = second.vcpus / first.vcpus
    per_gib = (one * scale - two) / (first.memory_gib * scale - second.memory_gib)
    per_vcpu = (one - first.memory_gib * per_gib) / first.vcpus
    return row.vcpus * per_vcpu + row.memory_gib * per_gib


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_gib", "steady", "burst", "usd", "threads"),
    [
        ("c7g.4xlarge", 16, 32, 7.5, 15, 0.58, 1),
        ("r8i.2xlarge", 8, 64, 3.75, 15, 0.55568, 2),
        ("m7a.medium", 1, 4, 0.39, 12.5, 0.05796, 1),
        ("m6a.48xlarge", 192, 768, 50, 50, 8.2944, 2),
        ("m5.4xlarge", 16, 64, 5, 10, 0.768, 2),
        ("m5.24xlarge", 96, 384, 25, 25, 4.608, 2),
        ("c5.9xlarge", 36, 72, 12, 12, 1.53, 2),
        ("r5.large", 2, 16, 0.75, 10, 0.126, 2),
        ("i4i.2xlarge", 8, 64, 4.687, 12, 0.686, 2),
        ("i3.4xlarge", 16, 122, 5, 10, 1.248, 2),
        ("t3.large", 2, 8, 0.512, 5, 0.0832, 2),
        ("t4g.small", 2, 2, 0.128, 5, 0.0168, 1),
        ("n1-highmem-8", 8, 52, 16, 16, 0.473212, 2),
        ("Standard_D4_v2", 8, 28, 6, 6, 0.585, 1),
        ("Standard_D8s_v3", 8, 32, 2, 2, 0.384, 2),
        ("Standard_D8_v4", 8, 32, 12.5, 12.5, 0.384, 2),
        ("c4d-standard-8", 8, 31, 20, 20, 0.377981788, 2),
        ("c4a-highmem-72", 72, 576, 50, 50, 4.24368, 1),
        ("n2-highmem-128", 128, 864, 32, 32, 7.706976, 2),
        ("Standard_D64ps_v5", 64, 208, 40, 40, 2.464, 1),
        ("Standard_E96s_v5", 96, 672, 35, 35, 6.048, 2),
    ],
)
def test_rows_are_as_published(
    name: str, vcpus: int, memory_gib: float, steady: float, burst: float, usd: float, threads: int
) -> None:
    row = INSTANCES[name]
    assert (row.vcpus, row.memory_gib, row.threads_per_core) == (vcpus, memory_gib, threads)
    assert (row.steady_gbit_per_s, row.burst_gbit_per_s) == (steady, burst)
    assert row.usd_per_hour == pytest.approx(usd)


def second_reading() -> list[dict[str, str]]:
    """What a reader found who had not seen the tables."""
    file = Path(__file__).parent / "data" / "second_reading.csv"
    lines = file.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_the_tables_are_what_a_second_reader_found() -> None:
    found = second_reading()
    assert Counter(row["provider"] for row in found) == {"aws": 14, "google": 8, "azure": 8}
    kinds = {1: "core", 2: "thread"}
    archs = {"aarch64": "arm64", "x86-64": "x86_64"}
    for read in found:
        row = INSTANCES[read["name"]]
        assert row.provider == read["provider"], row.name
        assert kinds[row.threads_per_core] == read["vcpu_is"], row.name
        assert archs[HOSTS[row.host_id].isa] == read["arch"], row.name
        numbers = {
            "vcpus": row.vcpus,
            "memory_gib": row.memory_gib,
            "baseline_gbit_per_s": row.baseline_gbit_per_s,
            "burst_gbit_per_s": row.burst_gbit_per_s,
            "usd_per_hour": row.usd_per_hour,
        }
        for name, ours in numbers.items():
            if ours is None:
                assert not read[name], (row.name, name)
            else:
                assert ours == pytest.approx(float(read[name]), rel=1e-6), (row.name, name)


def test_whole_cores_are_twice_the_hyperthreads() -> None:
    intel, amd = load_host("m8i.4xlarge"), load_host("m8a.4xlarge")
    assert (intel.topology.cores.best, amd.topology.cores.best) == (8, 16)
    assert intel.speed().cores == amd.speed().cores == 16
    assert intel.topology.threads_per_core.source == "vcpu"
    assert "thread" in (intel.sources["vcpu"].note or "")


def test_the_same_processor_has_hyperthreads_in_one_cloud_and_none_in_the_other() -> None:
    google, aws = load_host("c4d-standard-16").speed(), load_host("m8a.4xlarge").speed()
    assert (google.threads_per_core, aws.threads_per_core) == (2, 1)
    assert 0.5 <= google.busy_sibling_speed < 1.0
    assert aws.busy_sibling_speed == 1.0


def test_a_limit_is_what_a_load_gets_at_most_and_no_burst() -> None:
    host = load_host("Standard_D8s_v5")
    speed = host.speed()
    assert speed.network_gbit_per_s == 12.5
    assert speed.network_burst_gbit_per_s == 0.0
    assert host.uncertain()["network_gbit_per_s"] == (SHARE_OF_LIMIT * 12.5, 12.5, 12.5)
    assert speed.network_mtu_bytes == 1500
    assert speed.network_flow_gbit_per_s == float("inf")


def test_packets_that_a_provider_publishes_are_the_limit() -> None:
    row = INSTANCES["ecs.g7.2xlarge"]
    assert (row.steady_gbit_per_s, row.burst_gbit_per_s, row.packets_per_s.value) == (5, 15, 1.6e6)
    host = load_host("ecs.g7.2xlarge")
    assert host.speed().network_packets_per_s == 1.6e6
    assert "network_packets_per_s" not in host.uncertain()
    assert host.speed().network_mtu_bytes == 1500
    assert INSTANCES["m6i.2xlarge"].packets_per_s.value is None


def test_more_cores_than_a_socket_has_are_said_to_be() -> None:
    assert any("between its sockets" in note for note in load_host("m8g.48xlarge").notes)
    assert not any("between its sockets" in note for note in load_host("m8g.24xlarge").notes)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("c7g,a.large,x,4,1,2,,,", "line 2: field 'vcpus': found 'x'; valid is an integer"),
        ("c7g,a.large,0,4,1,2,,,", "line 2: field 'vcpus': found 0; valid is above 0"),
        ("c7g,a.large,2,,1,2,,,", "line 2: the field 'memory_gib' is missing"),
        ("c7g,a.large,2,nan,1,2,,,", "line 2: field 'memory_gib': found nan; valid is"),
        ("c7g,a.large,2,4,3,2,,,", "'burst_gbit_per_s': found 2.0; valid is a burst not below"),
        ("c7g,a.large,2,4,1,2,0.1,us-east-1,", "field 'priced': found nothing; valid is given"),
        ("c7g,a.large,2,4,1,2,0.1,us-east-1,July", "field 'priced': found 'July'; valid is"),
        ("c7g,a.large,2,4", "line 2: found 4 cells; valid is 9"),
        ("c7h,a.large,2,4,1,2,,,", "column 'family' of a.large: found 'c7h'; valid is a family"),
    ],
)
def test_a_wrong_row_says_where_and_what_is_valid(tmp_path: Path, row: str, message: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"{HEAD}\n{row}\n")
    with pytest.raises(InputError) as caught:
        read_instances(file, families())
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("family,nmae\n", "line 1: found the column 'nmae'; did you mean 'name'?"),
        ("family,family\n", "found the column 'family' twice"),
        (HEAD, "found no rows"),
        ("# only words\n", "found no rows"),
        (f'{HEAD}\nc7g,"a', "line 2: found unexpected end of data"),
    ],
)
def test_a_wrong_table_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_rows(file, InstanceRow)
    assert message in str(caught.value)


def test_an_empty_cell_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"# a comment\n{HEAD}\nc7g,a.large,2,4,,,,,\n")
    [row] = read_instances(file, families())
    assert row.steady_gbit_per_s is None
    assert row.usd_per_hour is None


OWN = """\
name: my-box
host: sapphire-rapids
vcpus: 8
memory_gib: 32
baseline_gbit_per_s: 2
burst_gbit_per_s: 10
usd_per_hour: 0.4
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[[str], HostProfile]:
    def load(text: str) -> HostProfile:
        file = tmp_path / "my-instance.yaml"
        file.write_text(text)
        return load_host(str(file))

    return load


def test_an_instance_of_ones_own_is_a_host(own: Callable[[str], HostProfile]) -> None:
    host = own(OWN)
    speed = host.speed()
    assert (host.id, host.instance) == ("sapphire-rapids-my-box", "my-box")
    assert (speed.cores, speed.threads_per_core, speed.memory_gib) == (8, 2, 32)
    assert (speed.network_gbit_per_s, speed.network_burst_gbit_per_s) == (2, 10)
    assert speed.price_usd_per_hour == 0.4
    assert host.sources["instance"].file is not None
    assert own(OWN + "threads_per_core: 1\n").topology.cores.best == 8
    google = own(OWN + "provider: google\nnetwork: limit\n").speed()
    assert (google.network_gbit_per_s, google.network_mtu_bytes) == (10, 1460)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("baseline_gbit_per_s: 2\n", "", "my-box: its baseline_gbit_per_s is not known"),
        ("host: sapphire-rapids", "host: m7i.large", "'host': found the instance 'm7i.large'"),
        ("host: sapphire-rapids", "host: saphire-rapids", "did you mean 'sapphire-rapids'"),
        ("burst_gbit_per_s: 10", "burst_gbit_per_s: 1", "a burst not below the baseline (2)"),
        ("memory_gib: 32\n", "", "'memory_gib' is missing"),
        ("usd_per_hour", "usd_an_hour", "unknown field 'usd_an_hour'"),
        ("vcpus: 8", "vcpus: 8\nhypervisor: zen", "'hypervisor': found 'zen'; valid is 'nitro'"),
    ],
)
def test_a_wrong_instance_of_ones_own_says_what_is_wrong(
    own: Callable[[str], HostProfile], before: str, after: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        own(OWN.replace(before, after))
    assert message in str(caught.value)


def test_every_source_of_the_families_is_used_and_has_an_address() -> None:
    known = catalogue_families()
    used = {source for family in known.families.values() for source in family.sources}
    used |= {family.vcpu_source for family in known.families.values()}
    leaves = [*known.networks.values(), *known.hypervisors.values()]
    used |= {leaf.source for group in leaves for _, leaf in group if isinstance(leaf, Quantity)}
    used |= {row.source for rows in region_prices().values() for row in rows}
    text = str([leaf for group in leaves for _, leaf in group])
    used = {*(used - {None}), *(key for key in known.sources if f"({key})" in text)}
    assert set(known.sources) == used
    for key, source in known.sources.items():
        assert source.url is not None, key
        assert source.accessed is not None, key
