"""Writes the page: `python -m evidence.calculator.page build/calculator`.

One file, `index.html`, with style, scripts, tables and the node as WebAssembly inside. It loads
nothing, so it opens from a disk and from any server of files.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from forecache import __version__
from forecache.hwprofiles.completion import ASSUMED_INTERRUPTIONS
from forecache.models.node.setup import NodeTimes
from forecache.models.prediction.predict import DRAWS
from forecache.models.scenario.schema import GeneratorSettings, Scenario
from forecache.models.scenario.workload import Workload
from forecache.models.step_times.stages import jitter_table
from forecache.reports.explore.controls import CONTROLS, GET_PERCENT, TLS
from forecache.sim.errors import InputError

from . import tables
from .module import COUNTERS, HEAD, build_module

HOSTS = (
    *("c7g.xlarge", "c7g.4xlarge", "r7g.xlarge", "r7g.2xlarge", "c8g.xlarge", "c8g.4xlarge"),
    *("r8g.2xlarge", "c6g.2xlarge", "m7i.2xlarge", "m8i.4xlarge", "c7i.4xlarge", "m7a.2xlarge"),
)
ENGINES = ("valkey 9.1", "valkey 8.1", "redis 8.6", "redis 7.2", "redis 6.2")
"""What the page offers, the first of each to begin with."""

START = {
    "host": "c7g.4xlarge",
    "engine": ENGINES[0],
    "io_threads": 4,
    "clients": 200,
    "pipeline": 1,
    "value_bytes": 256,
    "keys": tables.KEYS[1],
    GET_PERCENT: 80,
    "rate_rps": "",
}
MOST = {"clients": tables.CLIENTS[-1], "pipeline": tables.PIPELINES[-1]}


def write_page(
    folder: Path, *, hosts: Sequence[str] = HOSTS, engines: Sequence[str] = ENGINES
) -> Path:
    """Tabulate, compile and write the page; returns its path.

    Raises
    ------
    OSError
        The compiler of WebAssembly (the package ziglang) is missing or fails.
    """
    pairs = list(product(hosts, engines))
    with ProcessPoolExecutor() as processes:
        tabulated = list(processes.map(tables.tabulate, *zip(*pairs, strict=True)))
    numbers = [each.numbers for each in tabulated]
    starts = np.cumsum([0, *(each.size for each in numbers)]).tolist()
    data = {
        "grid": _grid(),
        "pairs": {
            f"{host} {engine}": {"begins": begins, "length": each.numbers.size, **each.about}
            for (host, engine), begins, each in zip(pairs, starts, tabulated, strict=False)
        },
    }
    start = START | {
        name: valid[0]
        for name, valid in (("host", hosts), ("engine", engines))
        if START[name] not in valid
    }
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "index.html"
    with tempfile.TemporaryDirectory(dir=folder) as work:
        module = Path(work) / "node.wasm"
        build_module(module)
        made = Path(work) / page.name
        made.write_text(
            _environment()
            .from_string(_text("calculator.html.jinja"))
            .render(
                controls=[
                    _control(control, hosts, engines) for control in CONTROLS if control.name != TLS
                ],
                start=Markup(json.dumps(start)),
                version=__version__,
                css=Markup(_style()),
                model=Markup(_text("model.js")),
                script=Markup(_text("calculator.js")),
                about=_packed(json.dumps(data, separators=(",", ":")).encode()),
                numbers=_packed(_planes(np.concatenate(numbers))),
                module=_packed(module.read_bytes()),
            ),
            encoding="utf-8",
        )
        made.replace(page)
    return page


def _grid() -> dict[str, Any]:
    """What all hosts and engines share."""
    most = Scenario(host="any", engine="any", workload=Workload(clients=MOST["clients"]))
    lengths, rates = zip(*ASSUMED_INTERRUPTIONS, strict=True)
    return {
        "fields": tables.FIELDS,
        "scalars": [name for name, kind in NodeTimes.__annotations__.items() if kind is int],
        "of_draws": tables.OF_DRAWS,
        "values": tables.VALUES,
        "keys": tables.KEYS,
        "clients": tables.CLIENTS,
        "pipelines": tables.PIPELINES,
        "gets": tables.GETS,
        "drawn_values": tables.DRAWN_VALUES,
        "stalls": tables.STALLS,
        "plain_steps": tables.PLAIN_STEPS,
        "factor_steps": tables.FACTOR_STEPS,
        "nothing": tables.NOTHING,
        "draws": DRAWS,
        "seed": 1,
        "generators": most.generator_threads,
        "tool": GeneratorSettings().tool,
        "head": HEAD,
        "counters": COUNTERS,
        "jitter": jitter_table().tolist(),
        "interruptions": [lengths, rates],
        "most": MOST,
    }


def _control(control: Any, hosts: Sequence[str], engines: Sequence[str]) -> dict[str, Any]:
    """A control of `explore`, with what there is to choose from; nothing where it is a number."""
    choices: dict[str, list[tuple[Any, str]]] = {
        "host": [(host, host) for host in hosts],
        "engine": [(engine, engine.capitalize()) for engine in engines],
        "value_bytes": [(size, f"{size:,}") for size in tables.VALUES],
        "keys": [(keys, f"{keys // 1_000_000} million") for keys in tables.KEYS],
    }
    found = {"choices": choices.get(control.name, []), "most": MOST.get(control.name, control.most)}
    return {**vars(control), **found, "hint": "" if control.name == "host" else control.hint}


def _planes(numbers: np.ndarray) -> bytes:
    """Low bytes and then high bytes, which pack better."""
    return numbers.astype("<i2").view(np.uint8).reshape(-1, 2).T.tobytes()


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _style() -> str:
    own = files("forecache.reports")
    parts = ("templates/report.css", "explore/templates/explore.css")
    return "".join(own.joinpath(part).read_text(encoding="utf-8") for part in parts) + _text(
        "calculator.css"
    )


def _environment() -> Environment:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)


def _text(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    """Write the page into the folder that is named, and say where it is."""
    try:
        page = write_page(Path(arguments[0] if arguments else "build/calculator"))
    except (OSError, InputError) as error:
        print(f"calculator: {error}", file=sys.stderr)
        return 1
    print(f"{page}: {page.stat().st_size / 1e6:.1f} MB; open it in a browser")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
