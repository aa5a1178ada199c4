"""What must hold of what the readers of benchmarks and INFO return."""

import json

from forecache.calibration.observe.readers.benchmark import BenchmarkResult
from forecache.calibration.observe.readers.info import Info
from forecache.calibration.observe.readers.memtier import CommandResult, MemtierResult

from .results import WrongResult, in_range, key, on_lines, present


def check_benchmark(result: object, text: str) -> None:
    """Titles and numbers stand in the text, line by line; rates and latencies fit together."""
    assert isinstance(result, list)
    in_range(result)
    records: list[list[float]] = []
    for test in result:
        assert isinstance(test, BenchmarkResult)
        if test.test not in text:
            raise WrongResult(f"{test.test!r} is not in the file")
        known = present(test.min_ms, test.p50_ms, test.p95_ms, test.p99_ms, test.max_ms)
        if known != sorted(known):
            raise WrongResult(f"{known} don't ascend")
        if test.mean_ms is not None:
            known.insert(0, test.mean_ms)
        if test.requests is None or test.duration_s is None:
            records.append([test.throughput_rps, *known])
            continue
        # These name what they are, so their order is free.
        on_lines([[test.requests, test.duration_s]], text)
        for setting in present(test.clients, test.payload_bytes, test.threads):
            on_lines([[setting]], text)
        records += [
            present(share.fraction * 100, share.latency_ms, share.count) for share in test.shares
        ]
        records += [[test.throughput_rps], known] if known else [[test.throughput_rps]]
        if abs(test.requests / test.throughput_rps - test.duration_s) > 0.01:
            raise WrongResult(f"{test.requests} in {test.duration_s} at {test.throughput_rps}")
    on_lines(records, text)


def check_memtier(result: object, text: str) -> None:
    """Numbers stand in the text, and the commands make up the totals."""
    assert isinstance(result, MemtierResult)
    in_range(result)
    commands = [*result.commands.values(), result.totals]
    if not text.lstrip().startswith(("{", "[")):
        on_lines([_shown_by_memtier(command) for command in commands], text)
    else:
        # A number in JSON may be written in many ways; its own reader says which there are.
        known = _numbers_of_json(text)
        for command in commands:
            seconds = list(command.requests_by_second.values())
            wanted = [*_shown_by_memtier(command), command.requests or 0, *seconds]
            wanted += present(command.min_ms, command.max_ms)
            missing = {key(number) for number in wanted if number} - known
            if missing:
                raise WrongResult(f"{missing} are not in the file")
    parts = sum(command.throughput_rps for command in result.commands.values())
    if abs(parts - result.totals.throughput_rps) > 0.011 * max(parts, 5):
        raise WrongResult(f"{parts} together, not {result.totals.throughput_rps}")


def _numbers_of_json(text: str) -> set[str]:
    known: set[str] = set()

    def take(number: str) -> float:
        known.add(key(float(number)))
        return 0.0

    json.loads(text, parse_int=take, parse_float=take)
    return known


def _shown_by_memtier(command: CommandResult) -> list[float]:
    """What both the table and the JSON have of a command."""
    rates = (command.throughput_rps, command.hits_per_s, command.misses_per_s)
    numbers = (*rates, command.mean_ms, *command.percentiles_ms.values(), command.kb_per_s)
    return present(*numbers)


def check_info(result: object, text: str) -> None:
    """Every structured number stands on the line of its field."""
    assert isinstance(result, Info)
    in_range(result)
    lines = {line.partition(":")[0]: line.partition(":")[2] for line in text.split("\n")}
    wanted: dict[str, list[float]] = {name: [value] for name, value in result.cpu_s.items()}
    for name, stats in result.commands.items():
        wanted[f"cmdstat_{name}"] = [stats.calls, stats.total_us]
    for name, percentiles in result.percentiles_us.items():
        wanted[f"latency_percentiles_usec_{name}"] = [
            n for pair in percentiles.items() for n in pair
        ]
    for number, keyspace in result.keyspaces.items():
        wanted[f"db{number}"] = [keyspace.keys, keyspace.expires, keyspace.average_ttl_ms]
    for name, numbers in wanted.items():
        if name not in lines:
            raise WrongResult(f"{name} is not in the file")
        on_lines([numbers], lines[name])
    if not set(result.io_threads_active_s) <= set(result.cpu_s.values()):
        raise WrongResult("active times that are not in the section CPU")
