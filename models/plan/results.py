"""What a capacity plan's answer consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from forecache.sim.plain import Result, where_set
from forecache.sim.statistics import Estimate

from ..advice.next_measurement import MeasureNext
from ..cost.bill import BillLine, NotPriced
from ..results.displayed import Displayed, Provenance

# --- the bill of today ----------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownField(Result):
    """A field of a scenario that was filled in, and how it is known."""

    field: str
    value: Any
    how: str


@dataclass(frozen=True)
class BilledLine(Result):
    """Lines of an export of one kind, added up."""

    what: str
    """Such as `nodes on demand`."""
    node_type: str
    """Empty where there is none."""
    quantity: float
    unit: str
    usd: float
    """As the export has it, unblended."""
    usd_per_month: float
    """Of 730 hours, with what was paid upfront spread over its term where the export tells it."""


@dataclass(frozen=True)
class BilledCache(Result):
    """A cache, as lines of the export name it."""

    name: str
    region: str
    engine: str
    """`redis`, `valkey` or `memcached`; empty where it is not told."""
    node_type: str
    """That with most hours; empty of a serverless cache."""
    nodes: int
    """At the end of the export."""
    shards: int | None
    """None where the export does not tell, as the next."""
    replicas: int | None
    lines: list[BilledLine]
    usd: float
    usd_per_month: float


@dataclass(frozen=True)
class UnplacedLine(Result):
    """Lines of an export of one kind that belong to no cache, and why."""

    product: str
    usage_type: str
    item_type: str
    why: str
    rows: int
    usd: float


@dataclass(frozen=True)
class ComparedLine(Result):
    """A part of today's bill against that of the best plan, in USD a month."""

    what: str
    today_usd: float | None
    """None where the export can't tell it."""
    plan_usd: float | None
    """None where no price of it is known."""


@dataclass(frozen=True)
class FromBill(Result):
    """What an export of a bill tells."""

    files: list[str]
    begins: str
    ends: str
    hours: float
    rows: int
    total_usd: float
    """Of all lines, unblended: what could be placed and what could not."""
    placed_usd: float
    unplaced_usd: float
    cache: str
    """The cache that is compared with plans."""
    caches: list[BilledCache]
    """The dearest first."""
    unplaced: list[UnplacedLine]
    """The largest amounts first."""
    known: list[KnownField]
    unknown: list[str]
    compared: list[ComparedLine]
    """Empty without a plan."""


# --- plans ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlanSetting(Result):
    """What to run."""

    instance: str
    engine: str
    engine_version: str
    shards: int
    replicas: int
    """Of each shard."""
    io_threads: int

    @property
    def nodes(self) -> int:
        """Primaries and replicas."""
        return self.shards * (1 + self.replicas)

    def to_dict(self) -> dict[str, Any]:
        """The same, and the number of nodes."""
        return {**super().to_dict(), "nodes": self.nodes}


@dataclass(frozen=True)
class ShardState(Result):
    """The busiest shard at the peak, in so many months: its primary, or a replica that is busier.

    Latencies are those of its busiest node.
    """

    months: float
    rate_rps: float
    """Operations a second."""
    capacity_rps: float
    """What it serves when its busiest node is saturated."""
    cpu_headroom: float
    """Share of that which is left."""
    limit_rps: float | None
    """The highest load that meets the objective at the nominal numbers."""
    memory_needed_bytes: float
    memory_usable_bytes: float
    memory_headroom: float
    """Share of the usable memory which is left."""
    p50_ms: Estimate | None
    """None where requests pile up, as the next."""
    p99_ms: Estimate | None
    p999_ms: Estimate | None
    probability: float
    """That the objective is met."""
    probability_low: float
    """Of the 95% interval of that probability, by the number of draws alone."""
    probability_high: float
    draws: int
    """Of everything uncertain, from which it is known."""


@dataclass(frozen=True)
class ReadReplica(Result):
    """The busiest replica of a shard at the horizon's peak, where clients read from replicas."""

    reads: float
    """Share of the reads of its shard that it serves."""
    primary_reads: float
    """The primary's."""
    crossing: float
    """Share of all reads that cross zones."""
    rate_rps: float
    """Reads a second."""
    writes_rps: float
    """Writes of its primary a second, all of which it executes."""
    writes_busy: float
    """Share of its main thread's time that these take."""
    cpu_headroom: float
    p99_ms: Estimate | None
    """None where requests pile up, as the next."""
    stale_p50_ms: Estimate | None
    """From the primary's answer to a write until a read of the replica sees it."""
    stale_p99_ms: Estimate | None


@dataclass(frozen=True)
class Milestone(Result):
    """A limit that growth reaches."""

    what: str
    months: float | None
    """From now on; None where it isn't within twenty years."""


@dataclass(frozen=True)
class AfterLoss(Result):
    """What is left when a node or a zone fails."""

    what: str
    """`node` or `zone`."""
    nodes_lost: int
    serving: int
    """Shards that go on serving."""
    rate_rps: float
    """Of the busiest primary at the horizon's peak."""
    cpu_headroom: float
    memory_headroom: float
    p99_ms: Estimate | None
    """None where requests pile up or nothing is left."""
    probability: float
    """That the objective is met."""
    data_lost: float
    """Share of the data."""
    holds: bool
    """Whether the objective is met with the probability asked for, the data fit, and it goes on by
    itself, or failing over by hand was allowed."""
    note: str
    by_itself: bool
    """Whether it goes on without a person."""


@dataclass(frozen=True)
class TermPrice(Result):
    """What one node costs a month, paid in one way."""

    payment: str
    usd_per_month: float | None
    """None where no such price is known."""
    note: str


@dataclass(frozen=True)
class RankedPlan(Result):
    """A plan, what it costs and how far it goes."""

    setting: PlanSetting
    usd_per_month: float
    """Of its nodes, which plans are ranked by: what is paid besides is not priced of all."""
    usd_per_node_month: float
    payment: str
    price_note: str
    meets: bool
    """Whether it meets all objectives up to the horizon."""
    why: str
    """What its number of shards is needed for, or which objective it misses."""
    now: ShardState
    horizon: ShardState
    bottleneck: str
    """The station that limits a node in saturation."""
    milestones: list[Milestone]
    """The earliest first; empty without growth."""
    failures: list[AfterLoss]
    warnings: list[str]
    bill_usd_per_month: float | None
    """With what is paid besides nodes, at today's mean load; None where some of it has no price."""
    bill: list[BillLine] = field(default_factory=list)
    """Lines of that bill which have a price."""
    not_priced: list[NotPriced] = field(default_factory=list)
    """What belongs to it and has no known price."""
    terms: list[TermPrice] = field(default_factory=list)
    """What a node costs in each way in which it may be paid."""
    is_open: bool = False
    """Whether the draws can't tell the probability to meet the objective from what is asked, so
    that their mean decides."""
    missed_where: str = ""
    """The uncertain number that makes draws miss the objective; empty if none stands out."""
    tied: bool = False
    """Whether it costs as much as the plan before it, and what is uncertain of both leaves open
    which is better: the simpler one comes first."""
    replica_reads: ReadReplica | None = where_set()
    """How its replicas are read from, if they are."""


@dataclass(frozen=True)
class BillPart(Result):
    """What makes up more than half of a bill."""

    what: str
    """`nodes`, `traffic between zones` or `backups`."""
    usd_per_month: float
    share: float
    of_usd_per_month: float
    """The whole bill."""


@dataclass(frozen=True)
class Lever(Result):
    """Something that would cut the bill of what to run, which keeps machine, shards and threads."""

    what: str
    change: dict[str, Any]
    """Fields of the scenario that would differ."""
    saves_usd: Estimate
    """Of the whole bill a month; below 0 where it costs more. Low and high belong to `assumes`."""
    assumes: str
    """What was taken and nobody has measured; empty if nothing."""
    risk: str
    plan: RankedPlan
    """With it: bill, latency, how old reads are, what failures leave."""


@dataclass(frozen=True)
class Rejected(Result):
    """An alternative to the best plan, and why it was turned down."""

    kind: str
    """`shards`, `size`, `family`, `engine`, `io_threads`, `replicas`, `today`."""
    what: str
    why: str
    usd_per_month: float | None
    """What its nodes cost, at least if not `certain`; None where it is not possible."""
    shards: int | None
    """That it takes, at least if not `certain`."""
    certain: bool
    """Whether it was simulated in full; if not, its bound was enough to turn it down."""


@dataclass(frozen=True)
class FrontPoint(Result):
    """A plan on the curve of cost against headroom."""

    setting: PlanSetting
    usd_per_month: float
    """Of its nodes."""
    headroom: float
    """The smaller of both shares left at the horizon's peak."""
    limited_by: str
    """`load` or `memory`."""
    on_front: bool
    """Whether nothing that was simulated has more headroom for as much money."""


@dataclass(frozen=True)
class ServerlessOffer(Result):
    """A serverless cache for the same demand."""

    engine: str
    usd_per_month: float
    horizon_usd_per_month: float
    break_even_load: float | None
    """The multiple of today's operations at which it costs as much as the nodes of the first plan;
    None where it is cheaper at any."""
    price_note: str


@dataclass(frozen=True)
class DataTieringOffer(Result):
    """Nodes that keep values on an SSD beside their memory, for the same demand; not simulated."""

    instance: str
    shards: int
    replicas: int
    usd_per_month: float
    """Of the nodes, on demand."""
    decided_by: str
    """What so many shards are needed for: `data`, `requests` or `network`."""
    price_note: str


@dataclass(frozen=True)
class SearchCounts(Result):
    """How much of what may be chosen was looked at."""

    offers: int
    """Machines, engines and replicas in every way."""
    candidates: int
    """The same with every number of threads."""
    bounded: int
    """Offers that a bound was enough for."""
    sized: int
    """Offers of which only what a node serves in saturation was simulated."""
    raced: int
    """Offers that few draws were enough for."""
    settled: int
    """Offers that were simulated in full."""
    enumerated: bool
    """Whether every number of shards and threads was."""


@dataclass(frozen=True)
class NotOffered(Result):
    """What was asked for and can't be had."""

    what: str
    why: str


# --- nodes of today -------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnTimes(Result):
    """What a node says of its main thread's time, as shares of the time looked at."""

    span_s: float
    between_looks: bool
    """Whether two looks tell it, else one over the server's life."""
    busy: float | None
    """CPU time of the main thread; None where other threads' is in it."""
    inside: float
    """Inside commands that clients asked for."""
    administration: float
    """Inside INFO, CONFIG and the like, and what came over connections of replicas."""
    forks: float
    expiry: float
    commands_a_read: float | None
    """Commands that came with one read: more than 1 in pipelines; None where nothing tells."""

    @property
    def fixed(self) -> float:
        """What doesn't grow with the requests."""
        return self.administration + self.forks + self.expiry


@dataclass(frozen=True)
class CurrentNode(Result):
    """What a node of today does, as its INFO tells."""

    name: str
    role: str
    """`primary` or `replica`."""
    rate_rps: float
    """Operations a second, on average."""
    peak_rps: float
    """The same at the busiest moment that is known."""
    used_memory_bytes: float
    keys: int
    main_thread_busy: float | None = None
    """Share of the busiest period in which the main thread was busy, as metrics tell; None where
    nothing does."""
    times: OwnTimes | None = None
    """Of its main thread, as INFO tells; None where it doesn't."""
    isa: str | None = None
    """`x86-64` or `aarch64`, as INFO tells by `os`."""
    system_memory_bytes: float | None = None


@dataclass(frozen=True)
class Trouble(Result):
    """Something a node's files show that an operator would look at first."""

    node: str
    kind: str
    what: str
    """With the numbers that were read."""
    costs: str
    remedy: str


@dataclass(frozen=True)
class CommandLatency(Result):
    """How long a command takes inside the server, without the wait for its turn."""

    command: str
    node: str
    """That of today's on which it takes longest."""
    calls: int
    """On that node, since it was started."""
    quantiles_ms: dict[str, float]
    """By name: `p50`, `p99`."""


@dataclass(frozen=True)
class FromInfo(Result):
    """What the nodes of today, and files of their keys, tell of the demand."""

    nodes: list[CurrentNode]
    demand: dict[str, Any]
    """Fields of a plan's demand."""
    today: dict[str, Any]
    """Fields of `today`, but for the instance, which INFO does not name."""
    known: list[KnownField]
    unknown: list[str]
    """What could not be known, and what was taken instead."""
    latencies: list[CommandLatency]
    """Of the commands that come most, the most frequent first."""
    not_used: list[str]
    """What the files say and a plan doesn't take up."""
    not_modelled: dict[str, float] = field(default_factory=dict)
    """By command, the largest first: share of the execution time of the primary with most of it
    that the demand does not stand for."""
    needed: dict[str, str] = field(default_factory=dict)
    """Fields that the scenario has to give before a plan or a ceiling can be told, and why."""
    troubles: list[Trouble] = field(default_factory=list)
    """What the files show to be wrong, the gravest kinds first."""
    look_next: list[str] = field(default_factory=list)
    """What to ask of the nodes next, and what each would tell, the most telling first."""


@dataclass(frozen=True)
class ThreadShare(Result):
    """A part of the main thread's time at today's mean load, as shares of the time."""

    part: str
    measured: float | None
    predicted: float | None
    after: float | None
    """As predicted once what was measured is taken into account."""
    grows: bool
    """Whether it grows with the requests."""


@dataclass(frozen=True)
class SettingChange(Result):
    """What today's nodes would serve with another setting, or if they were asked otherwise."""

    what: str
    """`io-threads 4`, `valkey 9.1`; `200 connections`, `values of 2,048 B`."""
    capacity_rps: float
    """Operations a second that one primary would serve in saturation."""
    ratio: float
    """Of that to today's."""


@dataclass(frozen=True)
class NodeHeadroom(Result):
    """How far a node of today is from its ceiling."""

    name: str
    rate_rps: float
    """Operations a second at the busiest moment that is known."""
    headroom: float
    """Share of the ceiling that is left; below 0 beyond it."""


@dataclass(frozen=True)
class CapacityLimit(Result):
    """The highest load with which a node of today meets the objective."""

    host: str
    engine: str
    engine_version: str
    io_threads: int
    objective: dict[str, float]
    """Latencies in ms, at most."""
    ceiling_rps: Estimate
    """Operations a second of one primary: half of all that is uncertain allows so much; low and
    high are the ends of the 95% interval."""
    nominal_rps: float
    """The same at the nominal numbers."""
    bottleneck: str
    """What limits the node when it is saturated."""
    nodes: list[NodeHeadroom]
    """Primaries, the busiest first."""
    warnings: list[str]
    main_thread_busy: Estimate | None = None
    """Share of the time in which the main thread is busy at the load asked about, as predicted:
    with one thread its CPU time."""
    capacity_rps: Estimate | None = None
    """Operations a second that one primary serves in saturation, whatever its latency."""
    time: list[ThreadShare] = field(default_factory=list)
    """Where the main thread's time goes at the mean load, the whole first; empty where nothing was
    measured."""
    corrected: bool = False
    """Whether what the nodes say of their own time is part of the prediction."""
    shards: int = 1
    peak_rps: float = 0.0
    """Operations a second of one primary at today's peak, on average."""
    times: float = 1.0
    """The multiple of today's peak that is asked about."""
    probability: float | None = None
    """That a primary meets the objective then; None where latency was not considered."""
    changes: list[SettingChange] = field(default_factory=list)
    """What other settings of today's nodes would serve, the most first."""
    otherwise: list[SettingChange] = field(default_factory=list)
    """What a primary would serve if the demand were another, the largest differences first."""
    measure_next: MeasureNext | None = None
    """Which measurement of host or engine would narrow what a primary serves; None where its own
    times told that."""


@dataclass(frozen=True)
class TodayAnswer(Displayed):
    """What runs today, without a search for plans."""

    kind: str
    from_info: FromInfo
    ceiling: CapacityLimit | None
    provenance: Provenance
    from_bill: FromBill | None = where_set()
    """What an export of a bill told, if one was read."""


# --- compression, and the whole answer ------------------------------------------------------------


@dataclass(frozen=True)
class CompressedSize(Result):
    """What was measured of values of one size."""

    value_bytes: int
    pieces: int
    """Values of the sample."""
    ratio: Estimate
    """Bytes after for bytes before, on average, with a 95% interval."""
    compress_us: Estimate
    """CPU time of one value on this machine: the median round with the shortest and longest."""
    decompress_us: Estimate


@dataclass(frozen=True)
class CompressionEffect(Result):
    """What values that clients compress change; intervals are those of the ratio."""

    algorithm: str
    level: int
    above_bytes: int
    compressor: str | None
    """What compressed the sample; None where the ratio is given, as the next."""
    cpu_model: str | None
    """Of this machine, which the CPU times are of."""
    sizes: list[CompressedSize]
    value_bytes: float
    """Of a value on average, before."""
    stored_bytes: Estimate
    """The same as it is stored and sent."""
    network_bytes_without: float
    """Of an operation's request and reply, without compression."""
    network_bytes: Estimate
    memory_bytes_without: float | None
    """What a node of the best plan needs at the horizon, without compression."""
    memory_bytes: Estimate | None
    memory_shards_without: int | None
    """Shards of its machine that memory takes without compression; None if none are enough."""
    client_us: dict[str, Estimate] | None
    """CPU time of a client by command, on this machine; None where it was not measured."""
    client_us_per_operation: Estimate | None
    client_cpus: Estimate | None
    """CPUs of all clients together at today's peak that compression keeps busy."""


@dataclass(frozen=True)
class PlanAnswer(Displayed):
    """What `plan` answers."""

    kind: str
    scenario: dict[str, Any]
    """The fields of the file."""
    peak_rps: float
    """Operations a second of the whole cache at today's peak."""
    horizon_rps: float
    """The same at the horizon."""
    data_growth: float
    """By how much data have grown then."""
    plans: list[RankedPlan]
    """Those whose nodes cost least first; empty where none meets the objectives."""
    keeps_today: bool
    """Whether what runs today is to stay: draws don't tell that it misses the objectives, and no
    plan costs less by a tenth."""
    with_traffic: str
    """How the order would change with what is paid besides nodes; empty if it wouldn't."""
    rejected: list[Rejected]
    """Why not something else than the first; without one, why nothing meets the objectives."""
    front: list[FrontPoint]
    """Cost against headroom, the cheapest first."""
    today: RankedPlan | None
    serverless: list[ServerlessOffer]
    not_offered: list[NotOffered]
    search: SearchCounts
    warnings: list[str]
    provenance: Provenance
    data_tiering: DataTieringOffer | None = where_set()
    """If it was asked for."""
    from_info: FromInfo | None = where_set()
    """What the nodes of today told, if they were asked."""
    from_bill: FromBill | None = where_set()
    """What an export of a bill told, if one was read."""
    ceiling: CapacityLimit | None = where_set()
    """How far today's nodes go, if it is known on what they run."""
    compression: CompressionEffect | None = where_set()
    """What compression by clients changes, if they compress."""
    largest_part: BillPart | None = where_set()
    """What makes up more than half of the bill of what to run."""
    levers: Sequence[Lever] = where_set(())
    """What would cut that bill, the largest saving first, where most of it is not nodes."""

    @property
    def recommended(self) -> RankedPlan | None:
        """What to run: today's plan if it is to stay, else the first; None without either."""
        if self.keeps_today:
            return self.today
        return self.plans[0] if self.plans else None
