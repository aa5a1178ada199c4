"""A hundred shards over a simulated day: CPU seconds, and how they grow with nodes and time.

    python benchmarks/cluster.py

The surrogate of the node is simulated before.
"""

import time

from forecache.hwprofiles.files import parse
from forecache.models.over_time.cluster.run import run_cluster
from forecache.models.over_time.cluster.schema import ClusterScenario

DAY_S = 86_400.0


def cpu_s(shards: int, duration_s: float) -> float:
    """CPU seconds of one run with steps of a quarter of a second, the default of a day."""
    data = {
        "kind": "cluster",
        "duration_s": duration_s,
        "step_s": 0.25,
        "cluster": {
            "host": "graviton3-m7g.xlarge",
            "engine": "valkey",
            "engine_version": "8.1",
            "shards": shards,
        },
        "clients": {"pods": 100, "workers_per_pod": 100},
        "demand": {
            "rate_profile": [
                {"duration_s": DAY_S / 2, "rate_rps": 50_000 * shards},
                {"duration_s": DAY_S / 2, "rate_rps": 120_000 * shards},
            ]
        },
    }
    scenario = parse(ClusterScenario, data, file="benchmark")
    began_s = time.process_time()
    run_cluster(scenario, 1, lambda _line: None)
    return time.process_time() - began_s


def main() -> None:
    """Print one line per size."""
    cpu_s(1, 10.0)
    for shards, duration_s in ((25, DAY_S / 4), (100, DAY_S / 4), (100, DAY_S)):
        print(f"{shards:4} shards, {duration_s / 3600:4.0f} h: {cpu_s(shards, duration_s):6.1f} s")


if __name__ == "__main__":
    main()
