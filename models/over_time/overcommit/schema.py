"""What a scenario of `kind: overcommit` says."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from forecache.hwprofiles.files import FieldError
from forecache.hwprofiles.instances import list_instances
from forecache.hwprofiles.record import Record as _Record

from ...scenario.workload import Popularity

DAY_S = 86_400.0

TraceLayout = Literal["csv", "google_2011", "azure_vms", "azure_packing"]
"""Layouts of recorded demand."""


class Hosts(_Record):
    """The hosts, all alike."""

    count: int = Field(ge=1, le=100_000)
    """How many."""
    memory_gb: float = Field(gt=0, le=100_000)
    """Physical memory that one has for machines, in GB of 10^9 bytes."""
    network_gbit_per_s: float = Field(default=25.0, gt=0, le=10_000)
    """What migrations may use of its network, each way."""


class TokenBucket(_Record):
    """How fast a machine may grow: so much at once, then at a steady rate."""

    gb_per_s: float = Field(default=0.5, gt=0)
    """Steady rate."""
    burst_gb: float = Field(default=8.0, gt=0)
    """What it may take at once after a while without growth."""


class GiveBack(_Record):
    """How memory that a machine no longer uses gets back to its host.

    The defaults depend on the mechanism: free pages are reported some 2 s after they were freed, in
    blocks of 2 MiB; a balloon and memory hot-unplug wait for someone to ask, and what can be
    unplugged is limited by fragmentation (Firecracker's documentation of each; speeds and shares
    are assumed).
    """

    mechanism: Literal["free_page_reporting", "balloon", "hotplug", "none"] = "free_page_reporting"
    """Which one."""
    delay_s: float | None = Field(default=None, ge=0)
    """From no longer used to being given back: 2, 10 and 60 s without it."""
    gb_per_s: float | None = Field(default=None, gt=0)
    """How fast: 2, 1 and 0.5 GB/s without it."""
    share: float | None = Field(default=None, ge=0, le=1)
    """Share of the unused memory that can be given back: 0.95, 0.9 and 0.7 without it."""

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Delay, speed and share as they apply."""
        delay_s, gb_per_s, share = {
            "free_page_reporting": (2.0, 2.0, 0.95),
            "balloon": (10.0, 1.0, 0.9),
            "hotplug": (60.0, 0.5, 0.7),
            "none": (0.0, 1.0, 0.0),
        }[self.mechanism]
        return (
            delay_s if self.delay_s is None else self.delay_s,
            gb_per_s if self.gb_per_s is None else self.gb_per_s,
            share if self.share is None else self.share,
        )


class MachineRequests(_Record):
    """What the engine on a machine is asked, for how fast it writes its memory.

    A machine is full of keys. Rates are for each GB it has.
    """

    reads_per_s_per_gb: float = Field(ge=0)
    """GETs; they write too, since an engine notes when a key was used last."""
    writes_per_s_per_gb: float = Field(ge=0)
    """SETs of keys that exist."""
    key_bytes: int = Field(default=16, ge=1)
    """Bytes of a key."""
    value_bytes: int = Field(default=512, ge=1)
    """Bytes of a value."""
    popularity: Popularity = "uniform"
    """Which keys they ask for."""
    layout: Literal[
        "dict", "dict_embedded_key", "hashtable", "hashtable_embedded_value", "slabs"
    ] = "hashtable_embedded_value"
    """How the engine lays keys out: Redis to 7.4 and Valkey 7.2; Valkey 8.0; Valkey 8.1 and 9.0;
    Valkey 9.1; Memcached."""


class Machines(_Record):
    """The virtual machines."""

    count: int = Field(ge=1, le=1_000_000)
    """How many there are at the start."""
    nominal_gb: float | None = Field(default=None, gt=0)
    """Memory that one believes to have; its host's without it."""
    unit_gb: float = Field(default=1.0, gt=0)
    """Memory is given and accounted in units of this size."""
    growth: TokenBucket = TokenBucket()
    """How fast one may grow."""
    give_back: GiveBack = GiveBack()
    """How it shrinks."""
    written_share_per_s: float = Field(default=0.002, ge=0, le=100)
    """Share of its memory that one writes in a second, which a migration has to send again."""
    writable_share: float = Field(default=0.2, gt=0, le=1)
    """Share of its memory that those writes go to."""
    requests: MachineRequests | None = None
    """What its engine is asked, in place of `written_share_per_s` and `writable_share`."""
    arrivals_per_hour: float = Field(default=0.0, ge=0)
    """New machines."""
    lifetime_h: float | None = Field(default=None, gt=0)
    """Mean time until a machine is deleted; they stay without it."""


class DemandBursts(_Record):
    """Times at which one machine alone wants more."""

    per_day: float = Field(default=1.0, ge=0, le=1_000)
    """How many a machine has a day."""
    factor: float = Field(default=3.0, ge=1)
    """Times its other demand."""
    minutes: float = Field(default=20.0, gt=0)
    """How long one lasts on average."""


class FleetDemand(_Record):
    """What machines want: a mean of their own, a season, noise, bursts.

    Machines of one tenant have the hour of their peak and part of the noise in common.
    """

    mean_gb: float = Field(default=8.0, gt=0)
    """Mean over machines."""
    spread: float = Field(default=1.0, ge=0, le=10)
    """Coefficient of variation over machines, of a lognormal distribution."""
    daily_swing: float = Field(default=0.4, ge=0, le=1)
    """Amplitude of the day's season as a share of the mean."""
    peak_spread_h: float = Field(default=4.0, ge=0, le=24)
    """Standard deviation of the hour of a tenant's peak; 0 lets all peak together."""
    noise: float = Field(default=0.1, ge=0, le=2)
    """Standard deviation of slow random changes, in logarithms."""
    noise_memory_min: float = Field(default=60.0, gt=0)
    """Minutes after which such a change is half forgotten, roughly."""
    tenants: int | None = Field(default=None, ge=1, le=1_000_000)
    """Tenants that machines belong to; each has its own without it."""
    in_common: float = Field(default=0.5, ge=0, le=1)
    """Share of the noise's variance that the machines of a tenant have in common."""
    bursts: DemandBursts = DemandBursts()
    """Bursts of single machines."""
    trace: str | None = None
    """A file with recorded demand instead; each machine draws a tenant and a shift in time from it.
    With `trace_layout: csv` its columns are time_s, tenant, memory_gb and, if there are any,
    requests_per_s, which then take the place of the rates in `machines.requests`."""
    trace_layout: TraceLayout = "csv"
    """How it is laid out: as above; `google_2011`: task_usage of Google's cluster trace, version 2;
    `azure_vms`: readings of Azure's VM traces of 2017 and 2019, where CPU stands for memory;
    `azure_packing`: the SQLite file of Azure Traces for Packing 2020."""
    trace_table: str | None = None
    """The table of machines that belongs to readings of `azure_vms`."""
    trace_machine_gb: float | None = Field(default=None, gt=0)
    """Memory of a machine that the trace takes as 1 (`google_2011`, `azure_packing`); a host's
    without it."""


class Heat(_Record):
    """When a host is hot, and what the fleet manager knows."""

    move_above: float = Field(default=0.7, gt=0, le=1)
    """Share of its memory above which a host gives a machine away."""
    give_until: float = Field(default=0.9, gt=0, le=1)
    """Share up to which machines are given more."""
    look_every_s: float = Field(default=10.0, gt=0)
    """How often the fleet manager looks."""
    view_age_s: float = Field(default=0.0, ge=0)
    """How old its view of the hosts may be: it is refreshed so often."""

    @model_validator(mode="after")
    def _ordered(self) -> Heat:
        if self.move_above > self.give_until:
            valid = f"a share not above give_until ({self.give_until:g})"
            raise FieldError("move_above", found=self.move_above, valid=valid)
        return self


class Policies(_Record):
    """Who goes where."""

    placement: Literal["random", "best_of_two", "unbalanced", "emptiest"] = "unbalanced"
    """Host of a new machine: any with room, the emptier of two, the fullest that stays below its
    limit, or the emptiest."""
    destination: Literal["random", "best_of_two", "unbalanced", "emptiest"] = "emptiest"
    """Host that a machine moves to, likewise."""
    victim: Literal["largest", "smallest_that_cools", "cheapest", "random"] = "smallest_that_cools"
    """Machine that leaves a hot host: the largest, the smallest that is enough, the one with the
    shortest migration, or any."""
    fill_until: float = Field(default=0.6, gt=0, le=1)
    """Share of a host's memory up to which new and moved machines are put there."""


class LiveMigration(_Record):
    """Pre-copy."""

    gbit_per_s: float | None = Field(default=None, gt=0)
    """What one stream gets at most; the host's network without it."""
    blackout_ms: float = Field(default=300.0, gt=0)
    """Rest that may be sent while the machine stands still."""
    resume_ms: float = Field(default=20.0, ge=0)
    """Stopping and resuming besides."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Time after which a migration is given up."""
    at_once: int = Field(default=2, ge=1)
    """Migrations that a host takes part in at a time."""
    stops: Literal["within_a_round", "after_a_round"] = "within_a_round"
    """When a machine may stop: as soon as the rest fits, or once all of a round was sent, so that
    only what was written in it is left."""
    write_fault_us: float = Field(default=2.0, ge=0, le=1_000)
    """How long the first write to a page that was sent is held up (assumed, 1 to 5 µs: an exit to
    the hypervisor that marks the page)."""


class HostFailure(_Record):
    """Hosts that fail; their machines start again elsewhere, empty."""

    at_s: float = Field(ge=0)
    """When."""
    hosts: int = Field(default=1, ge=1)
    """How many, the first ones."""


class FlashCrowd(_Record):
    """Many machines that want more at once."""

    at_s: float = Field(ge=0)
    """When it begins."""
    lasts_s: float = Field(gt=0)
    """How long it lasts."""
    share: float = Field(gt=0, le=1)
    """Share of the machines it reaches."""
    factor: float = Field(ge=1)
    """Times their other demand."""


class FleetCost(_Record):
    """What a host costs an hour: like an instance rented on demand, or a price of your own."""

    instance: str | None = None
    """An instance of `forecache catalog` with at least a host's memory, whose price one pays."""
    usd_per_host_hour: float | None = Field(default=None, gt=0, le=1e6)
    """Another price; this or `instance`."""
    source: str | None = Field(default=None, min_length=1)
    """Where that price is from; with `usd_per_host_hour`, and only there."""

    @model_validator(mode="after")
    def _one_price(self) -> FleetCost:
        if (self.instance is None) == (self.usd_per_host_hour is None):
            valid = "either instance or usd_per_host_hour"
            raise FieldError("instance", found=self.instance, valid=valid)
        if (self.source is None) != (self.usd_per_host_hour is None):
            valid = "the source of the price with usd_per_host_hour, and only there"
            raise FieldError("source", found=self.source, valid=valid)
        return self


class OvercommitScenario(_Record):
    """Machines that use less than they are promised, on hosts that have less than they promise."""

    kind: Literal["overcommit"]
    """What the scenario is about."""
    name: str | None = None
    """A name for people."""
    duration_s: float = Field(default=DAY_S, gt=0, le=31 * DAY_S)
    """Simulated time."""
    step_s: float = Field(default=10.0, gt=0, le=3_600)
    """Memory advances in steps of this length."""
    hosts: Hosts
    """The hosts."""
    machines: Machines
    """The virtual machines."""
    demand: FleetDemand = FleetDemand()
    """What they want."""
    heat: Heat = Heat()
    """When something is done about a host."""
    policies: Policies = Policies()
    """What is done."""
    migration: LiveMigration = LiveMigration()
    """How machines move."""
    exhausted: Literal["wait", "swap", "kill"] = "wait"
    """What happens to machines that can't be given memory for `patience_s`: they wait on, are given
    memory on disk, or are killed and start empty elsewhere."""
    patience_s: float = Field(default=60.0, ge=0)
    """How long that may last."""
    failures: list[HostFailure] = Field(default=[], max_length=10_000)
    """Hosts that fail."""
    crowds: list[FlashCrowd] = Field(default=[], max_length=1_000)
    """Flash crowds."""
    cost: FleetCost | None = None
    """What hosts cost; without it only how many are saved is told."""

    @model_validator(mode="after")
    def _whole(self) -> OvercommitScenario:
        if self.step_s > self.duration_s:
            valid = f"a step not longer than duration_s ({self.duration_s:g})"
            raise FieldError("step_s", found=self.step_s, valid=valid)
        if sum(failure.hosts for failure in self.failures) >= self.hosts.count:
            raise FieldError("failures", found=len(self.failures), valid="a host that doesn't fail")
        if self.cost is not None and self.cost.instance is not None:
            self._check_instance(self.cost.instance)
        return self

    def _check_instance(self, name: str) -> None:
        priced = [row for row in list_instances() if row.usd_per_hour is not None]
        memory_gb = {row.name: row.memory_gib * 2**30 / 1e9 for row in priced}
        if name not in memory_gb:
            valid = "an instance that `forecache catalog` lists with a price"
            raise FieldError("cost.instance", found=name, valid=valid)
        if memory_gb[name] < self.hosts.memory_gb:
            valid = f"an instance with at least hosts.memory_gb ({self.hosts.memory_gb:g} GB)"
            found = f"{name}, which has {memory_gb[name]:.0f} GB"
            raise FieldError("cost.instance", found=found, valid=valid)
