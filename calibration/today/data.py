"""Keys, their sizes and what lies in memory: the part of a demand that data are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import read_text
from forecache.models.engines.commands import CommandKind, bulk_bytes
from forecache.models.footprint.schema import MemoryScenario
from forecache.models.footprint.weigh import beside_of, key_weight, node_of, weigh
from forecache.models.layouts.generations import generation
from forecache.models.layouts.tables import SLOTS
from forecache.models.plan.results import KnownField
from forecache.models.scenario.command_table import DESCRIBED_BY, commands_on
from forecache.models.scenario.workload import WORKLOADS
from forecache.sim.errors import InputError
from forecache.sim.words import byte_size

from .commands import OperationCounts
from .keys import (
    BigKeys,
    KeyGroup,
    Keyspace,
    by_type,
    group_keys,
    group_scans,
    is_big_keys,
    parse_big_keys,
    populations,
)
from .nodes import MOST_NOT_MODELLED, TodaysNode, nodes_of
from .prometheus import is_prometheus, nodes_of_metrics
from .rdb import About, Kind, RdbReader, is_rdb, open_rdb

# --- sizes of keys and values, from bytes over the network and from memory in use -----------------


MOST_KEY_BYTES = 64 * 1024
MOST_VALUE_BYTES = 64 * 2**20
LEAST_COMMANDS = 1000
"""Of fewer, what is asked besides them may weigh as much."""

_NIL_BYTES, _STATUS_BYTES = 5, 5


@dataclass(frozen=True)
class Traffic:
    """What clients sent and received in some time.

    Attributes
    ----------
    calls
        GET, SET, MGET and MSET.
    keys_a_command
        Of MGET and MSET.
    found
        Share of the keys that were read and are there.
    """

    calls: Mapping[str, float]
    keys_a_command: Mapping[str, int]
    found: float
    input_bytes: float
    output_bytes: float

    def keys_read(self) -> float:
        """Keys that were asked for."""
        return self._count("get") + self._count("mget") * self._keys("mget")

    def replied_bytes(self, value_bytes: int) -> float:
        """Bytes of all replies, if values have a size."""
        read = self.found * bulk_bytes(value_bytes) + (1.0 - self.found) * _NIL_BYTES
        headers = self._count("mget") * (3 + len(str(self._keys("mget"))))
        statuses = (self._count("set") + self._count("mset")) * _STATUS_BYTES
        return self.keys_read() * read + headers + statuses

    def asked_bytes(self, key_bytes: int, value_bytes: int) -> float:
        """Bytes of all requests, if keys and values have a size."""
        return sum(
            count * CommandKind(name, value_bytes, 1.0, self._keys(name)).request_bytes(key_bytes)
            for name, count in self.calls.items()
        )

    def _count(self, name: str) -> float:
        return self.calls.get(name, 0.0)

    def _keys(self, name: str) -> int:
        return self.keys_a_command.get(name, 1)


@dataclass(frozen=True)
class Sizes:
    """Sizes in bytes; None where they can't be told."""

    key_bytes: int | None
    value_bytes: int | None


def sizes_of(traffic: Traffic) -> Sizes:
    """What the bytes of requests and replies say.

    Replies tell the values that were read, requests then the keys; what is written is taken to be
    as large as what is read. Where nothing is read, only the sum of both is known.
    """
    commands = sum(traffic.calls.values())
    if commands < LEAST_COMMANDS:
        return Sizes(None, None)
    value: int | None = None
    if traffic.keys_read() * traffic.found >= LEAST_COMMANDS:
        value = nearest_size(traffic.replied_bytes, traffic.output_bytes, 0, MOST_VALUE_BYTES)
    if value is None:
        return Sizes(None, None)
    key = nearest_size(
        lambda size: traffic.asked_bytes(size, value), traffic.input_bytes, 1, MOST_KEY_BYTES
    )
    return Sizes(key, value)


Populations = Callable[[int], Sequence[Mapping[str, Any]]]
"""What keys there are if something of them has a size, as `kind: memory` describes them."""


def memory_of(node: TodaysNode) -> dict[str, Any]:
    """Fields of `kind: memory` of a node of today, but for its data."""
    engine, version = node.last.engine
    slots = node.cluster.get("cluster_size", "")
    shards = int(slots) if slots.isascii() and slots.isdigit() and len(slots) <= 4 else 1
    cluster = node.last.text("cluster_enabled") == "1" and _knows_slots(engine, version)
    return {
        "engine": engine,
        "engine_version": version,
        "cluster": cluster,
        "slots_served": max(1, round(SLOTS / max(1, shards))) if cluster else None,
        "clients": node.clients,
        "commands": min(500, len(node.last.commands)),
        "replicas": min(64, int(node.last.number("connected_slaves") or 0)),
    }


def _knows_slots(engine: str, version: str) -> bool:
    """Whether memory of cluster mode is modelled."""
    try:
        return generation(engine, version).slots is not None
    except InputError:
        return False


def used_by(node: Mapping[str, Any], data: Sequence[Mapping[str, Any]]) -> float | None:
    """Memory that a node uses with some data; None where its layout isn't known.

    Parameters
    ----------
    node
        Its fields, as `memory_of` has them.
    """
    scenario = MemoryScenario(**node, data=data)  # type: ignore[arg-type]
    try:
        where = node_of(scenario)
    except InputError:
        return None
    return weigh(where, scenario.data, beside=beside_of(scenario, where)).used_bytes


def size_in_memory(
    node: Mapping[str, Any], populations: Populations, used_bytes: float
) -> int | None:
    """The size with which a node uses so much memory.

    None where its layout isn't known, or no size does.
    """
    if used_by(node, populations(1)) is None:
        return None
    return nearest_size(
        lambda size: used_by(node, populations(size)) or 0.0, used_bytes, 0, MOST_VALUE_BYTES
    )


def size_in_a_key(
    node: Mapping[str, Any], population: Populations, weight_bytes: float
) -> int | None:
    """The size with which a key of the only population weighs so much; None as above."""

    def weighs(size: int) -> float:
        scenario = MemoryScenario(**node, data=population(size))  # type: ignore[arg-type]
        return key_weight(node_of(scenario), scenario.data[0]).settled

    try:
        return nearest_size(weighs, weight_bytes, 0, MOST_VALUE_BYTES)
    except InputError:
        return None


def nearest_size(grows: Callable[[int], float], target: float, low: int, high: int) -> int | None:
    """The size at which something that grows comes nearest to what was found; None if none does."""
    least, most = low, high
    if grows(most) < target or grows(least) > target:
        return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if grows(middle) <= target else (least, middle)
    return least if target - grows(least) <= grows(most) - target else most


# --- what keys there are --------------------------------------------------------------------------


KEY_BYTES, VALUE_BYTES, ELEMENT_BYTES = 16, 512, 16
"""Taken where nothing tells them."""

_NOT_WEIGHED: tuple[Kind, Kind] = ("stream", "module")
"""Types whose layout in memory isn't modelled."""

_MOST_SIZES = 32
"""Of values that a demand may have."""

_MIDDLE = 0.5
"""Where between a power of two and the next sizes lie on average (assumed)."""

_LARGE = 1_000_000
"""Elements of a key that is told of: it may be a large part of a shard."""

_FAR = 0.15
"""By how much what keys weigh may differ from used_memory without a word."""


def keys_of(primaries: Sequence[TodaysNode], told: TodaysFiles) -> Keyspace | None:
    """What keys there are by type: from files of them, else from INFO; None if nothing tells."""
    if told.held is not None:
        return told.held
    sizes = [each for node in primaries for each in node.last.key_sizes]
    if {kind for kind, _, _ in sizes} <= {"string"}:
        return None  # the memory in use tells more of them than powers of two
    groups = _within_octaves(sizes, _MIDDLE)
    # Where most of the memory is strings, it tells where between the powers their sizes lie.
    node, used = memory_of(primaries[0]), primaries[0].last.needed("used_memory")
    part = _part_of_first(primaries)
    strings = populations([each.times(part) for each in groups if each.kind == "string"])
    if strings and 2.0 * (used_by(node, strings) or 0.0) > used:

        def placed(percent: int) -> list[dict[str, Any]]:
            found = _within_octaves(sizes, min(1.0, percent / 100.0))
            return populations([group.times(part) for group in found])

        percent = size_in_memory(node, placed, used)
        if percent is None:  # it is beyond one end
            percent = 0 if (used_by(node, placed(0)) or 0.0) > used else 100
        groups = _within_octaves(sizes, min(1.0, percent / 100.0))
    return Keyspace(groups, "INFO keysizes")


def _within_octaves(sizes: Sequence[tuple[Kind, int, int]], share: float) -> list[KeyGroup]:
    """Groups of sizes that are known by powers of two, each so far on its way to the next."""
    found = []
    for kind, power, keys in sizes:
        size = keys * (power if power < 2 else power * (1.0 + share))
        if keys and kind == "string":
            found.append(KeyGroup(kind, keys, keys * KEY_BYTES, keys, size))
        elif keys:
            found.append(KeyGroup(kind, keys, keys * KEY_BYTES, size, None))
    return found


def sizes_by_traffic(
    primaries: Sequence[TodaysNode],
    asked: OperationCounts,
    keys_a_command: Mapping[str, int],
    notes: Notes,
) -> Sizes:
    """Sizes that bytes received and sent tell."""

    def total(name: str) -> float:
        return sum(node.grown(name) or 0.0 for node in primaries)

    hits, misses = total("keyspace_hits"), total("keyspace_misses")
    found = hits / (hits + misses) if hits + misses else 1.0
    if found < 0.99:
        notes.unknown.append(
            f"what a miss costs: {1.0 - found:.0%} of the look-ups find nothing; all are predicted "
            "as if they did"
        )
    if not asked.only_known:
        return Sizes(None, None)
    received = total("total_net_input_bytes") - total("total_net_repl_input_bytes")
    sent = total("total_net_output_bytes") - total("total_net_repl_output_bytes")
    return sizes_of(Traffic(asked.calls, keys_a_command, found, received, sent))


def data_of(
    primaries: Sequence[TodaysNode],
    held: Keyspace | None,
    told: TodaysFiles,
    *,
    factor: float,
    sizes: Sizes,
    notes: Notes,
) -> dict[str, Any]:
    """Fields of `demand` about keys and values.

    Parameters
    ----------
    factor
        Primaries of the cache for one of `primaries`.
    sizes
        By traffic.
    """
    databases = [each for node in primaries for each in node.last.databases]
    keys, expires = sum(d.keys for d in databases), sum(d.expires for d in databases)
    if held is None:
        return _strings(primaries, keys, expires, factor=factor, sizes=sizes, notes=notes)
    if primaries and keys:
        if abs(held.keys / keys - 1.0) > 0.01:
            notes.unknown.append(
                f"what the other keys are like: {held.how} tells of {held.keys:,.0f} and INFO of "
                f"{keys:,}; all are taken to be like these"
            )
        scale = factor * keys / held.keys
        share = expires / keys
    else:
        scale, share = 1.0, 0.0
    groups = [group.times(scale) for group in held.groups]
    if held.how != "RDB":
        groups = [replace(group, expiring=share * group.keys) for group in groups]
        if not primaries:
            notes.unknown.append("times to live: none is taken")
    held = replace(held, groups=groups)
    return _populations(primaries, held, told, factor=factor, sizes=sizes, notes=notes)


def _strings(
    primaries: Sequence[TodaysNode],
    keys: int,
    expires: int,
    *,
    factor: float,
    sizes: Sizes,
    notes: Notes,
) -> dict[str, Any]:
    """Where nothing tells of types: as if all keys held strings."""
    if sizes.key_bytes is None:
        notes.unknown.append(f"the size of keys: {KEY_BYTES} bytes are taken")
        key_bytes = KEY_BYTES
    else:
        key_bytes = notes.found("demand.key_bytes", sizes.key_bytes, "bytes of requests")
        key_bytes = min(MOST_KEY_BYTES, key_bytes)
    all_keys = max(1, round(factor * keys))
    strings: dict[str, Any] = {
        "type": "string", "keys": all_keys, "key_bytes": key_bytes, "value_bytes": 1,
        "ttl": four_digits(expires / keys) if keys else 0.0,
    }  # fmt: skip
    in_memory = None
    if keys:
        part = _part_of_first(primaries) / factor

        def holding(size: int) -> list[dict[str, Any]]:
            return [strings | {"keys": max(1, round(all_keys * part)), "value_bytes": size}]

        in_memory = size_in_memory(
            memory_of(primaries[0]), holding, primaries[0].last.needed("used_memory")
        )
    value_bytes = sizes.value_bytes
    if value_bytes is not None:
        notes.found("demand.value_bytes", value_bytes, "bytes of replies")
    elif in_memory is not None:
        value_bytes = notes.found("demand.value_bytes", in_memory, "memory in use a key")
    else:
        value_bytes = VALUE_BYTES
        notes.unknown.append(f"the size of values: {VALUE_BYTES} bytes are taken")
    found: dict[str, Any] = {
        "keys": notes.found("demand.keys", all_keys, "keyspace"),
        "key_bytes": key_bytes,
        "value_bytes": value_bytes,
    }
    if in_memory is not None:
        found["data"] = [strings | {"value_bytes": in_memory}]
        notes.found("demand.data", found["data"], "used_memory, as if all keys held strings")
    return found


def _populations(
    primaries: Sequence[TodaysNode],
    held: Keyspace,
    told: TodaysFiles,
    *,
    factor: float,
    sizes: Sizes,
    notes: Notes,
) -> dict[str, Any]:
    """Where the types of keys are known."""
    known = [group for group in held.groups if group.element_bytes is not None]
    unknown = [group for group in held.groups if group.element_bytes is None]
    groups = list(held.groups)
    how = held.how
    if unknown and told.memory_bytes and primaries:
        unknown = [
            _sized_by_memkeys(group, told.memory_bytes, primaries[0], notes) for group in unknown
        ]
        groups, how = [*known, *unknown], f"{held.how}, sizes by --memkeys"
    element_bytes = ELEMENT_BYTES
    if any(group.element_bytes is None for group in groups):
        element_bytes = _by_used_memory(primaries, groups, factor=factor, notes=notes)
    elif primaries:
        _tell_of_the_rest(primaries, groups, factor=factor, notes=notes)
    held = replace(held, groups=groups)
    data = populations(groups, element_bytes=element_bytes)
    notes.found("demand.data", by_type(held), how)
    _tell_of_types(held, notes)
    if held.how != "RDB":
        notes.unknown.append(f"how sizes differ within a type, of which {held.how} tells little")
    strings = held.of("string")
    asked_of = strings or groups
    keys = sum(group.keys for group in asked_of)
    key_bytes = sizes.key_bytes
    if key_bytes is not None:
        notes.found("demand.key_bytes", key_bytes, "bytes of requests")
    else:
        mean = sum(group.key_bytes for group in asked_of) / keys
        key_bytes = notes.found("demand.key_bytes", max(1, round(mean)), how)
    return {
        "keys": notes.found("demand.keys", max(1, round(keys)), "strings" if strings else "keys"),
        "key_bytes": min(MOST_KEY_BYTES, key_bytes),
        "value_bytes": _value_sizes(strings, sizes, how, notes),
        "data": data,
    }


def collections_of(
    held: Keyspace, operations: Collection[str], data: Sequence[Mapping[str, Any]], notes: Notes
) -> dict[str, Any]:
    """What collections of a demand are like, where operations work on them: the means of all."""
    found: dict[str, Any] = {}
    for kind, group in DESCRIBED_BY.items():
        names = [name for name in WORKLOADS[kind].model_fields if name not in ("keys", "integers")]
        alike = [each for each in data if each["type"] == kind]
        if not alike or not set(commands_on(kind)) & set(operations):
            continue
        keys = sum(each["keys"] for each in alike)
        elements = sum(each["keys"] * each[names[0]] for each in alike)
        mean = {names[0]: max(1, round(elements / keys))}
        for name in names[1:]:
            total = sum(each["keys"] * each[names[0]] * each[name] for each in alike)
            mean[name] = min(MOST_KEY_BYTES, max(1, round(total / elements)))
        found[group] = notes.found(f"demand.{group}", {"keys": keys, **mean}, f"{held.how}, means")
        notes.unknown.append(
            f"which {group.replace('_', ' ')} are asked for: all are taken to be as the mean one"
        )
    return found


def _value_sizes(strings: Sequence[KeyGroup], sizes: Sizes, how: str, notes: Notes) -> Any:
    """Sizes of values: by traffic, or those of strings, at most so many."""
    if sizes.value_bytes is not None:
        return notes.found("demand.value_bytes", sizes.value_bytes, "bytes of replies")
    weights: dict[int, float] = {}
    for group in strings:
        size = round((group.element_bytes or 0.0) / group.keys)
        weights[size] = weights.get(size, 0.0) + group.keys
    if not weights:
        notes.unknown.append(f"the size of values: {VALUE_BYTES} bytes are taken")
        return VALUE_BYTES
    ordered = sorted(weights.items())
    while len(ordered) > _MOST_SIZES:  # the two that are nearest become one
        apart = [(high + 1) / (low + 1) for (low, _), (high, _) in pairwise(ordered)]
        at = apart.index(min(apart))
        (low, a), (high, b) = ordered[at : at + 2]
        ordered[at : at + 2] = [(round((low * a + high * b) / (a + b)), a + b)]
    if len(ordered) == 1:
        found: Any = min(MOST_VALUE_BYTES, ordered[0][0])
    else:
        found = {
            "values": [min(MOST_VALUE_BYTES, size) for size, _ in ordered],
            "weights": [four_digits(keys) for _, keys in ordered],
        }
    mean = sum(size * keys for size, keys in ordered) / sum(weights.values())
    notes.found("demand.value_bytes", four_digits(mean), f"strings, {how}; every key asked alike")
    return found


def _part_of_first(primaries: Sequence[TodaysNode]) -> float:
    """Share of the keys of some primaries that the first one has."""
    keys = [sum(each.keys for each in node.last.databases) for node in primaries]
    return keys[0] / sum(keys) if sum(keys) else 1.0 / len(keys)


def _sized_by_memkeys(
    group: KeyGroup, memory_bytes: Mapping[Kind, float], node: TodaysNode, notes: Notes
) -> KeyGroup:
    """A group with the size of elements with which a key weighs what `--memkeys` says."""
    weight_bytes = memory_bytes.get(group.kind)
    if weight_bytes is None:
        return group
    size = size_in_a_key(
        memory_of(node), lambda size: populations([group], element_bytes=size), weight_bytes
    )
    if size is None:
        words = group.kind.replace("_", " ")
        notes.unknown.append(f"sizes of {words}s: what --memkeys says fits none")
        return group
    values = size * group.elements if group.kind == "hash" else 0.0
    return replace(group, element_bytes=size * group.elements, value_bytes=values)


def _by_used_memory(
    primaries: Sequence[TodaysNode], groups: Sequence[KeyGroup], *, factor: float, notes: Notes
) -> int:
    """The size of elements with which a node uses as much memory as it does."""
    size = None
    if primaries:
        here = _of_first(primaries, groups, factor=factor)
        size = size_in_memory(
            memory_of(primaries[0]),
            lambda size: populations(here, element_bytes=size),
            primaries[0].last.needed("used_memory"),
        )
    if size is None:
        notes.unknown.append(f"sizes of elements: {ELEMENT_BYTES} bytes are taken")
        return ELEMENT_BYTES
    return notes.found("demand.data.element_bytes", size, "used_memory; of all types alike")


def _of_first(
    primaries: Sequence[TodaysNode], groups: Sequence[KeyGroup], *, factor: float
) -> list[KeyGroup]:
    """The part of the groups that the first of some primaries has."""
    return [group.times(_part_of_first(primaries) / factor) for group in groups]


def _tell_of_types(held: Keyspace, notes: Notes) -> None:
    """What the footprint doesn't know of some types."""
    streams, modules = (sum(group.keys for group in held.of(kind)) for kind in _NOT_WEIGHED)
    if streams:
        notes.unknown.append(
            f"what {streams:,.0f} streams take beside their entries, as groups and indexes"
        )
    whole_bytes, of_modules = (
        sum(group.key_bytes + (group.element_bytes or 0.0) for group in groups)
        for groups in (held.groups, held.of("module"))
    )
    if of_modules > MOST_NOT_MODELLED * whole_bytes:
        notes.needed["demand.data"] = (
            f"{of_modules / whole_bytes:.0%} of the data by {held.how} are keys of modules, whose "
            f"size in memory is not modelled, more than {MOST_NOT_MODELLED:.0%}, so that no memory "
            "and no plan can be given. Give a scenario of kind plan with demand.data, where "
            "strings of the size that MEMORY USAGE says stand for them."
        )
    if modules:
        notes.unknown.append(
            f"what {modules:,.0f} keys of modules take: they count as strings of as many bytes"
        )
    if held.own_times:
        notes.unknown.append(
            f"what the times to live of single fields take, which {held.own_times:,} hashes have"
        )
    if held.of("sorted_set") and held.how == "RDB":
        notes.unknown.append("digits of scores of large sorted sets, which do not count there")
    if held.largest is not None and held.largest[1] >= _LARGE:
        kind, elements = held.largest
        notes.unknown.append(
            f"where the largest key would be, a {kind.replace('_', ' ')} with {elements:,} "
            "elements: keys are taken to spread evenly over shards"
        )


def _tell_of_the_rest(
    primaries: Sequence[TodaysNode], groups: Sequence[KeyGroup], *, factor: float, notes: Notes
) -> None:
    """What of a node's memory its keys don't explain."""
    used = primaries[0].last.needed("used_memory")
    data = populations(_of_first(primaries, groups, factor=factor))
    explained = used_by(memory_of(primaries[0]), data)
    if explained is not None and abs(explained / used - 1.0) > _FAR:
        notes.unknown.append(
            f"what explains used_memory of {primaries[0].name}: {byte_size(used)}, where its keys "
            f"and connections make {byte_size(explained)}"
        )


# --- what is found out on the way: how fields are known, what isn't, what isn't used --------------


@dataclass
class Notes:
    """Sentences that gather while a demand is put together."""

    known: list[KnownField] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    not_used: list[str] = field(default_factory=list)
    needed: dict[str, str] = field(default_factory=dict)
    """By field of the scenario: why nothing can be told unless it gives that."""

    def found(self, name: str, value: Any, how: str) -> Any:
        """Keep how a field is known."""
        self.known.append(KnownField(name, value, how))
        return value


def four_digits(value: float) -> float:
    """To four digits, as many as a plan needs."""
    return float(f"{value:.4g}")


# --- files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TodaysFiles:
    """What files tell.

    Attributes
    ----------
    nodes
        Those that INFO is of.
    held
        The keys, by RDB files or else by `--bigkeys`; None without either.
    memory_bytes
        Of a key with its value, by type, on average: `--memkeys`.
    dumps, scans
        RDB files, and scans of nodes.
    """

    nodes: list[TodaysNode]
    held: Keyspace | None = None
    memory_bytes: Mapping[Kind, float] = field(default_factory=dict)
    dumps: Sequence[About] = ()
    scans: int = 0


def read_files(
    files: Sequence[str | Path], *, progress: Callable[[str], None] | None = None
) -> TodaysFiles:
    """Read files of nodes, RDB files, and what `--bigkeys` and `--memkeys` print, in any order.

    A folder stands for the files in it (`files_in`).
    """
    texts: list[str | Path] = []
    readers: list[RdbReader] = []
    scans: list[BigKeys] = []
    metrics: list[tuple[str, str]] = []
    for file in files_in(files):
        if is_rdb(file):
            readers.append(RdbReader(open_rdb(file), file=str(file)))
        elif is_big_keys(text := read_text(file)):
            scans.append(parse_big_keys(text, file=str(file)))
        elif is_prometheus(text):
            metrics.append((str(file), text))
        else:
            texts.append(file)
    counted = [scan for scan in scans if not scan.of_memory]
    weighed = [scan for scan in scans if scan.of_memory]
    held = _read_keys(readers, counted or weighed, progress)
    return TodaysFiles(
        [*nodes_of(texts), *nodes_of_metrics(metrics)],
        held,
        _memory(weighed),
        [each.about for each in readers],
        len(scans),
    )


_NOT_OF_NODES = (".yaml", ".yml", ".md", ".html", ".pdf")
"""What may lie beside the files of nodes: scenarios, profiles of hosts, notes, reports."""


def files_in(paths: Sequence[str | Path]) -> list[str | Path]:
    """The same with the files of nodes that lie in a folder in its place, by name.

    Raises
    ------
    InputError
        A folder has none.
    """
    found: list[str | Path] = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
            continue
        inside = sorted(
            each
            for each in Path(path).iterdir()
            if each.is_file()
            and not each.name.startswith(".")
            and each.suffix.lower() not in _NOT_OF_NODES
        )
        if not inside:
            raise InputError(
                f"{path}: found a folder without files of nodes; valid is one with a text of INFO "
                "ALL of each node, such as node-1.txt."
            )
        found += inside
    return found


def _read_keys(
    readers: Sequence[RdbReader],
    scans: Sequence[BigKeys],
    progress: Callable[[str], None] | None,
) -> Keyspace | None:
    """The keys of all RDB files, or else of all scans."""
    if not readers:
        return group_scans(scans) if scans else None
    if progress is not None:
        progress("reading RDB files")
    found = group_keys(chain.from_iterable(readers), how="RDB")
    if not found.groups:
        raise InputError(f"{readers[0].file}: found no key; valid is an RDB file with keys.")
    return found


def _memory(scans: Sequence[BigKeys]) -> dict[Kind, float]:
    totals: dict[Kind, tuple[int, int]] = {}
    for each in (each for scan in scans for each in scan.types):
        keys, total = totals.get(each.kind, (0, 0))
        totals[each.kind] = keys + each.keys, total + each.total
    return {kind: total / keys for kind, (keys, total) in totals.items()}
