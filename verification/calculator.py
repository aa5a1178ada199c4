"""`python -m verification.calculator PAGE`: a calculator page's answers beside the command's.

Draws random inputs, has the page's scripts answer them in Debian's chromium and `predict_cases` in
this process, and prints how far apart they are.
"""

import argparse
import json
import random
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from evidence.calculator import tables
from forecache.models.advice.cases import load_cases
from forecache.models.footprint.answers import memory
from forecache.models.prediction.predict import predict_cases
from forecache.sim.executors import InThisThread

MOST_ON_THE_WAY = 2000
"""Requests of all clients: with more a prediction takes many seconds, here as there."""

PART = 50
"""Points that one browser answers."""

Question = tuple[str, dict[str, Any]]
Point = tuple[Question, dict[str, Any], dict[str, Any]]

NAMES = ("throughput_rps", "p50_ms", "p99_ms")
ENDS = ("value", "low", "high")

_ANSWER = """
async ([key, chosen]) => {
  const begins = performance.now(), pair = page.about.pairs[key];
  const numbers = page.numbers.subarray(pair.begins, pair.begins + pair.length);
  const tables = new Tables(page.about.grid, pair, numbers);
  let found, first;
  for (found of predict(tables, page.node, chosen, page.about.grid.draws)) {
    first ??= performance.now() - begins;
  }
  const names = ["throughput_rps", "p50_ms", "p99_ms"];
  const ends = (name) => {
    const all = found.estimate(name);
    return all && [all.value, all.low, all.high].map(String);
  };
  return { first_ms: first, all_ms: performance.now() - begins, bottleneck: found.bottleneck,
    memory: memory_of(pair, chosen, page.about.grid).used,
    ...Object.fromEntries(names.map((name) => [name, ends(name)])) };
}
"""

_READY = """
async () => {
  const [about, planes, module] = await Promise.all(["about", "numbers", "module"].map(unpacked));
  const { instance } = await WebAssembly.instantiate(module), bytes = new Uint8Array(planes);
  const parsed = JSON.parse(new TextDecoder().decode(about)), half = bytes.length / 2;
  const numbers = new Int16Array(half);
  for (let i = 0; i < half; i++) numbers[i] = bytes[i] | (bytes[half + i] << 8);
  window.page = { about: parsed, numbers, node: new Node(instance, parsed.grid) };
  const threads = Object.entries(parsed.pairs).map(([name, pair]) => [name, pair.threads]);
  return [threads, parsed.grid.most];
}
"""


def drawn(
    pairs: list[tuple[str, list[int]]], most: dict[str, int], *, count: int, seed: int
) -> Iterator[Question]:
    """Inputs as somebody could choose them on the page."""
    rng = random.Random(seed)
    while count > 0:
        name, threads = rng.choice(pairs)
        clients = round(most["clients"] ** rng.random())
        pipeline = rng.choice([1, 1, round(most["pipeline"] ** rng.random())])
        if clients * pipeline > MOST_ON_THE_WAY:
            continue
        chosen: dict[str, Any] = {
            "threads": rng.randint(1, threads[-1]),
            "clients": clients,
            "pipeline": pipeline,
            "get": rng.choice([0, 50, 80, 90, 100, rng.randint(0, 100)]) / 100,
            "value": rng.choice(tables.VALUES),
            "keys": rng.choice(tables.KEYS),
            "rate": None,
        }
        if rng.random() < 0.3:
            chosen |= {"rate": round(10 ** rng.uniform(4, 5.7)), "pipeline": 1}
        yield name, chosen
        count -= 1


def predicted(name: str, chosen: dict[str, Any]) -> dict[str, Any]:
    """What the command says."""
    host, engine = name.split(" ", 1)
    begins = time.perf_counter()
    cases = load_cases(tables.scenario_of(host, engine, **chosen))
    [prediction] = predict_cases(cases, executor=InThisThread())
    found: dict[str, Any] = {"bottleneck": prediction.bottleneck}
    for quantity in NAMES:
        estimate = prediction.estimate(quantity)
        found[quantity] = estimate and [estimate.value, estimate.low, estimate.high]
    found["all_ms"] = 1000 * (time.perf_counter() - begins)
    [point] = memory(tables.scenario_of(tables.LARGEST, engine, **chosen)).points
    return found | {"memory": point.used_memory_bytes.value}


def compared(page: Path, *, count: int, seed: int) -> list[Point]:
    """Questions, what the page answers, and what the command does."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_function("() => document.getElementById('tiles').textContent")
        # Its own worker has nothing more to do.
        tab.evaluate("() => state.worker.terminate()")
        tab.add_script_tag(content=tab.evaluate("() => byId('model').textContent"))
        pairs, most = tab.evaluate(_READY)
        points = []
        for question in drawn(pairs, most, count=count, seed=seed):
            answer = tab.evaluate(_ANSWER, list(question))
            for name in NAMES:
                ends = answer[name]
                answer[name] = ends and [float(end.replace("Infinity", "inf")) for end in ends]
            points.append((question, answer, predicted(*question)))
        browser.close()
    return points


def differences(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Of each quantity: relative differences by quantile, and the share inside the interval."""
    found: dict[str, dict[str, float]] = {}
    for name in NAMES:
        both = [(page[name], ours[name]) for page, ours in pairs if page[name] and ours[name]]
        for index, end in enumerate(ENDS):
            off = [
                abs(a[index] / b[index] - 1)
                for a, b in both
                if np.isfinite([a[index], b[index]]).all()
            ]
            row = {f"q{q}": float(np.quantile(off, q / 100)) for q in (50, 90, 99, 100)}
            if end == "value":
                row["inside"] = float(np.mean([b[1] <= a[0] <= b[2] for a, b in both]))
            found[f"{name} {end}"] = row
    off = [abs(page["memory"] / ours["memory"] - 1) for page, ours in pairs]
    found["memory"] = {f"q{q}": float(np.quantile(off, q / 100)) for q in (50, 90, 99, 100)}
    return found


def main() -> int:
    """Ask both, print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write every point into this file")
    given = parser.parse_args()
    parts = [(given.seed + 1000 * part, PART) for part in range(-(-given.points // PART))]
    points: list[Point] = []
    with ProcessPoolExecutor() as processes:
        calls = [
            processes.submit(compared, given.page, count=count, seed=seed) for seed, count in parts
        ]
        for call in calls:
            points += call.result()
            print(f"{len(points)} of {given.points}", file=sys.stderr, flush=True)
    pairs = [(page, command) for _, page, command in points]
    for name, row in differences(pairs).items():
        print(f"{name:24}" + "".join(f"  {key} {value:8.2%}" for key, value in row.items()))
    for name in ("overloaded", "limited by"):
        same = [
            (page["p99_ms"] is None) == (command["p99_ms"] is None)
            if name == "overloaded"
            else page["bottleneck"] == command["bottleneck"].replace("turns", "clients")
            for page, command in pairs
        ]
        print(f"{name}: the same at {sum(same)} of {len(same)} points")
    for key in ("first_ms", "all_ms"):
        times = [page[key] for page, _ in pairs]
        print(f"page {key}: median {np.median(times):.0f}, 95% {np.quantile(times, 0.95):.0f}")
    print(f"command all_ms: median {np.median([command['all_ms'] for _, command in pairs]):.0f}")
    if given.json:
        given.json.write_text(json.dumps(points))
    return 0


if __name__ == "__main__":
    sys.exit(main())
