"""The words of what compression by clients changes."""

from forecache.models.plan.results import CompressedSize, CompressionEffect
from forecache.sim.statistics import Estimate

from .formats import UNKNOWN, byte_size, count, time_with_bounds


def compression_heading(effect: CompressionEffect) -> str:
    """What compresses which values."""
    above = byte_size(effect.above_bytes)
    return f"Clients compress values above {above}: {effect.algorithm}, level {effect.level}"


def compression_facts(effect: CompressionEffect) -> list[tuple[str, str]]:
    """Name and text of each thing that changes."""
    facts = [
        (
            "Values",
            f"{_sizes(effect.stored_bytes)} on average, {byte_size(effect.value_bytes)} before",
        ),
        (
            "Network",
            f"{_sizes(effect.network_bytes)} an operation, "
            f"{byte_size(effect.network_bytes_without)} without",
        ),
    ]
    if effect.memory_bytes is not None:
        shards = effect.memory_shards_without
        facts.append(
            (
                "Memory of a node",
                f"{_sizes(effect.memory_bytes)}, {byte_size(effect.memory_bytes_without)} without, "
                + ("which no number of shards has" if shards is None else f"for which {shards} "
                   f"shard{'s are' if shards > 1 else ' is'} needed"),
            )
        )  # fmt: skip
    facts.append(("CPU of clients", _clients(effect)))
    facts += [(f"Sample, {count(each.value_bytes)} B", _size(each)) for each in effect.sizes]
    return facts


def _clients(effect: CompressionEffect) -> str:
    if effect.client_us is None or effect.client_cpus is None:
        return "not known: the ratio is given, nothing was measured"
    each = ", ".join(
        f"{name.upper()} {time_with_bounds(_ms(us))}" for name, us in effect.client_us.items()
    )
    cpus = effect.client_cpus
    return (
        f"{each}; at the peak {cpus.value:.3g} CPUs ({cpus.low:.3g}–{cpus.high:.3g}) of all "
        "clients. "
        f"On this machine ({effect.cpu_model or UNKNOWN}) with {effect.compressor}"
    )


def _size(each: CompressedSize) -> str:
    ratio = each.ratio
    return (
        f"{ratio.value:.3g} ({ratio.low:.3g}–{ratio.high:.3g}) of their bytes, {each.pieces} "
        "values; "
        f"{time_with_bounds(_ms(each.compress_us))} to compress, "
        f"{time_with_bounds(_ms(each.decompress_us))} to decompress"
    )


def _ms(us: Estimate) -> Estimate:
    return Estimate(us.value / 1e3, us.low / 1e3, us.high / 1e3)


def _sizes(size: Estimate) -> str:
    ends = [byte_size(size.low), byte_size(size.high)]
    if ends[0] == ends[1]:
        return byte_size(size.value)
    return f"{byte_size(size.value)} ({'–'.join(ends)})"
