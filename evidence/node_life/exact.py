"""Caches of libCacheSim beside the model: what an engine's sampling costs against exact orders.

libCacheSim comes from PyPI (`pip install libcachesim`). It reads a trace of the law from which the
model draws its requests; each holds as many keys as the other.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from forecache.models.over_time.node_life.run import run_node_life
from forecache.sim.errors import InputError

from ..harness import Progress
from .cases import HITS, KEYS, Case, scenario_of
from .driver import hot_shares, zipf_shares
from .predict import mean_hits, values

Row = dict[str, Any]

ENGINE, MOST_SAMPLES, HOST = "valkey-9.1.2", 64, "r7g.2xlarge"
RATE_RPS, WARM_S, COUNTED_S = 2_000.0, 150.0, 350.0
"""Slow enough for a clock of whole seconds not to matter."""
SEEDS = 3

LAWS: dict[str, dict[str, Any]] = {
    "zipf 0.99": {"zipf": 0.99},
    "zipf 0.7": {"zipf": 0.7},
    "hot set": {"hot_set": {"keys": 0.1, "requests": 0.8}},
}
_SHARES = {
    "zipf 0.99": lambda: zipf_shares(KEYS, 0.99),
    "zipf 0.7": lambda: zipf_shares(KEYS, 0.7),
    "hot set": lambda: hot_shares(KEYS, hot_keys=0.1, hot_requests=0.8),
}
PAIRS = (
    ("LRU", "allkeys-lru", (5, 10, MOST_SAMPLES)),
    ("LFU", "allkeys-lfu", (5, MOST_SAMPLES)),
    ("Random", "allkeys-random", (5,)),
    ("FIFO", None, ()),
)
"""A cache of libCacheSim, the policy that is nearest to it, and numbers of samples."""


def compare(progress: Progress) -> list[Row]:
    """Hit ratios of all caches under all laws.

    Raises
    ------
    InputError
        libCacheSim is not installed.
    """
    try:
        caches = importlib.import_module("libcachesim")
    except ImportError:
        raise InputError(
            "node-life: its part exact needs libCacheSim: `pip install libcachesim`."
        ) from None
    rows = []
    for law in LAWS:
        held = None
        for name, policy, numbers in PAIRS:
            found = {}
            for samples in numbers:
                hits, keys = _model(law, str(policy), samples)
                held = held or keys
                found[str(samples)] = hits
            exact = [_exact(caches, name, law, held or 0, seed) for seed in range(SEEDS)]
            rows.append({"law": law, "cache": name, "keys": held, "exact": exact,
                         "policy": policy, "model": found})  # fmt: skip
            progress(f"{law}, {name}: {np.mean(exact):.4f}, {found}")
    return rows


def _model(law: str, policy: str, samples: int) -> tuple[list[float], int]:
    """Hits with several seeds, and keys at the end."""
    [case] = [case for case in HITS if case.name == "lru, zipf 0.99"]
    settings = {**case.settings, "maxmemory_policy": policy, "maxmemory_samples": samples}
    case = Case("", settings=settings, data={**case.data, "popularity": LAWS[law]})
    found, keys = [], 0
    for seed in range(1, SEEDS + 1):
        scenario = scenario_of(
            case,
            ENGINE,
            duration_s=WARM_S + COUNTED_S,
            rate_rps=RATE_RPS,
            host=HOST,
            report_s=10.0,
            stores_misses=True,
        )
        run = run_node_life(scenario, seed, lambda _: None)
        found.append(mean_hits(run, after_s=WARM_S))
        keys = round(float(values(run, "keys")[-1]))
    return found, keys


def _exact(caches: Any, name: str, law: str, keys: int, seed: int) -> float:
    warm, counted = (round(RATE_RPS * seconds) for seconds in (WARM_S, COUNTED_S))
    draws = np.random.default_rng(seed).random(warm + counted)
    trace = np.searchsorted(np.cumsum(_SHARES[law]()), draws).clip(max=KEYS - 1).tolist()
    cache = getattr(caches, name)(cache_size=keys)
    request = caches.Request()
    request.obj_size = 1
    hits = 0
    for number, key in enumerate(trace):
        request.obj_id = key
        hit = cache.get(request)
        hits += hit and number >= warm
    return round(hits / counted, 5)
