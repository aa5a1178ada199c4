"""Ten thousand machines on five hundred hosts over a simulated day: CPU seconds and peak memory;
and a sweep over placements with several seeds in one process and in two.

python benchmarks/overcommit.py
"""

import resource
import time

from forecache.models.over_time.overcommit.run import run_overcommit
from forecache.models.over_time.overcommit.schema import OvercommitScenario

DAY_S = 86_400.0


def cpu_s(machines: int, hosts: int, duration_s: float) -> float:
    """CPU seconds of one run in steps of ten seconds."""
    scenario = OvercommitScenario.model_validate(
        {
            "kind": "overcommit",
            "duration_s": duration_s,
            "hosts": {"count": hosts, "memory_gb": 256},
            "machines": {"count": machines},
            "demand": {"mean_gb": 5, "peak_spread_h": 8},
            "policies": {"fill_until": 0.5},
        }
    )
    began_s = time.process_time()
    run_overcommit(scenario)
    return time.process_time() - began_s


def sweep_s(jobs: int) -> float:
    """Seconds of twelve runs of a sweep: three placements, four seeds."""
    # All kinds of scenarios take memory that is no part of a fleet.
    from forecache.models.over_time.simulate_scenario import simulate

    began_s = time.perf_counter()
    simulate(
        {
            "kind": "overcommit",
            "hosts": {"count": 100, "memory_gb": 256},
            "machines": {"count": 2_000},
            "demand": {"mean_gb": 5, "peak_spread_h": 8},
            "policies": {
                "placement": {"sweep": ["random", "best_of_two", "unbalanced"]},
                "fill_until": 0.5,
            },
        },
        seeds=4,
        jobs=jobs,
    )
    return time.perf_counter() - began_s


def peak_mib() -> float:
    """Most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print one line per size, and one for the sweep."""
    print(f"before the first run: {peak_mib():.0f} MiB")
    for machines, hosts, duration_s in (
        (2_500, 125, DAY_S),
        (10_000, 500, DAY_S / 4),
        (10_000, 500, DAY_S),
    ):
        seconds = cpu_s(machines, hosts, duration_s)
        print(
            f"{machines:6} machines, {hosts} hosts, {duration_s / 3600:4.0f} h: "
            f"{seconds:5.1f} s, {peak_mib():.0f} MiB at most"
        )
    alone_s, two_s = sweep_s(1), sweep_s(2)
    print(
        f"12 runs of a sweep, 2000 machines, 24 h: {alone_s:.1f} s in one process, "
        f"{two_s:.1f} s in two, {alone_s / two_s:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
