"""What must hold of what the readers of benchmarks return."""

import json

from forecache.calibration.observe.readers.benchmark import BenchmarkResult, MemtierResult

from .reader_results import WrongResult, in_range, key, on_lines, present


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
        records.append([test.throughput_rps, *known])
    on_lines(records, text)


def check_memtier(result: object, text: str) -> None:
    """Numbers stand in the text, and the commands make up the totals."""
    assert isinstance(result, MemtierResult)
    in_range(result)
    commands = [*result.commands.values(), result.totals]
    # A number in JSON may be written in many ways; its own reader says which there are.
    known = _numbers_of_json(text)
    for command in commands:
        rates = (command.throughput_rps, command.misses_per_s)
        latencies = (command.mean_ms, command.min_ms, command.max_ms)
        wanted = present(command.requests, *rates, *latencies, *command.percentiles_ms.values())
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
