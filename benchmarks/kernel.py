"""How fast the kernels are: `python benchmarks/kernel.py [--json] [--repetitions N] [PART ...]`.

Every part is a module beside this one with `measure(repetitions) -> dict` and `table(result)`:
`mm1` compares the event calendar with SimPy and cimba, `node` the compiled node with the SimPy
one. Results go to stdout, progress to stderr.
"""

import argparse
import importlib
import importlib.util
import json
import platform
import sys
from pathlib import Path
from typing import Any

import forecache

# For `verification`, whose M/M/1 is measured.
sys.path.append(str(Path(__file__).resolve().parents[1]))

PARTS = ("mm1", "node")


def processor() -> str:
    """The processor's name as the kernel gives it, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> int:
    """Measure the parts asked for; exit code 2 if there is none of that name."""
    available = [part for part in PARTS if importlib.util.find_spec(part) is not None]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(available)}")
    parser.add_argument("--json", action="store_true", help="print JSON and not a table")
    parser.add_argument("--repetitions", type=int, default=7, metavar="N", help="default: 7")
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in available]
    if unknown:
        parser.error(f"no part named {', '.join(unknown)}; there are {', '.join(available)}")
    if given.repetitions < 1:
        parser.error(f"--repetitions is {given.repetitions}; at least 1 is needed")
    results: dict[str, Any] = {
        "forecache": forecache.__version__,
        "python": platform.python_version(),
        "processor": processor(),
    }
    for part in given.parts or available:
        module = importlib.import_module(part)
        results[part] = module.measure(given.repetitions)
        if not given.json:
            print(module.table(results[part]), flush=True)
    if given.json:
        print(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
