"""Ten thousand machines on five hundred hosts over a simulated day: CPU seconds and peak memory.

python benchmarks/overcommit.py
"""

import resource
import time

from forecache.models.overcommit.run import run_overcommit
from forecache.models.overcommit.schema import OvercommitScenario

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


def main() -> None:
    """Print one line per size."""
    for machines, hosts, duration_s in (
        (2_500, 125, DAY_S),
        (10_000, 500, DAY_S / 4),
        (10_000, 500, DAY_S),
    ):
        seconds = cpu_s(machines, hosts, duration_s)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{machines:6} machines, {hosts} hosts, {duration_s / 3600:4.0f} h: "
            f"{seconds:5.1f} s, {peak_mib:.0f} MiB at most"
        )


if __name__ == "__main__":
    main()
