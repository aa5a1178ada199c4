"""`python -m verification [--list] [NAME ...]` from the root of the checkout."""

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import numpy
import scipy

from forecache.hwprofiles.files import write_text_atomic

from . import busy_study, consistency, late_clients, plans, posterior
from .check import Check, Finding
from .inputs import fuzz, readers
from .nodes import closed_forms as node
from .nodes import effects, open_loops, quick_estimates, sensitivity, twins
from .queueing import closed_forms, coverage, warm_up

CHECKS = [
    *closed_forms.CHECKS,
    *node.CHECKS,
    *open_loops.CHECKS,
    *coverage.CHECKS,
    *effects.CHECKS,
    *sensitivity.CHECKS,
    *quick_estimates.CHECKS,
    *warm_up.CHECKS,
    *posterior.CHECKS,
    *readers.CHECKS,
    *fuzz.CHECKS,
    *twins.CHECKS,
    *consistency.CHECKS,
    *late_clients.CHECKS,
    *busy_study.CHECKS,
    *plans.CHECKS,
]


def _json_number(number: float) -> float | None:
    """JSON has no infinity: an open end is null."""
    return number if abs(number) != float("inf") else None


def _as_dict(finding: Finding) -> dict[str, object]:
    return {
        "subject": finding.subject,
        "expected": finding.expected,
        "found": finding.found,
        "low": _json_number(finding.low),
        "high": _json_number(finding.high),
        "passed": finding.passed,
    }


def _line(finding: Finding) -> str:
    mark = "pass" if finding.passed else "FAIL"
    interval = f"[{finding.low:.5g}, {finding.high:.5g}]"
    return (
        f"  {mark}  {finding.subject:<58} known {finding.expected:<9.5g} "
        f"simulated {finding.found:<9.5g} {interval}"
    )


def _done(check: Check) -> tuple[list[Finding], float]:
    """What a check finds, printed as it comes, and the seconds it takes."""
    began_s = time.perf_counter()
    print(f"{check.name}: {check.says}", flush=True)
    findings = check.run()
    for finding in findings:
        print(_line(finding), flush=True)
    return findings, time.perf_counter() - began_s


def _done_aside(check: Check) -> tuple[str, list[Finding], float]:
    """The same with what it prints, so that checks that run at once don't print into each other."""
    with redirect_stdout(StringIO()) as printed:
        findings, elapsed_s = _done(check)
    return printed.getvalue(), findings, elapsed_s


def _each_done(
    checks: list[Check], jobs: int
) -> Iterator[tuple[Check, tuple[list[Finding], float]]]:
    """Checks with what they find: several at once, then those that need the machine for themselves.

    With one job they run here, in their order.
    """
    at_once = [check for check in checks if jobs > 1 and not check.alone]
    if at_once:
        with ProcessPoolExecutor(jobs) as pool:
            found = pool.map(_done_aside, at_once)
            for check, (printed, findings, elapsed_s) in zip(at_once, found, strict=True):
                print(printed, end="", flush=True)
                yield check, (findings, elapsed_s)
    for check in checks:
        if check not in at_once:
            yield check, _done(check)


def run(checks: list[Check], *, jobs: int = 1) -> dict[str, object]:
    """Run checks, print their findings, return everything as a JSON-able dict."""
    started_s = time.perf_counter()
    entries = []
    n_findings = 0
    passed = True
    for check, (findings, check_s) in _each_done(checks, jobs):
        n_findings += len(findings)
        passed = passed and all(finding.passed for finding in findings)
        entries.append(
            {
                "name": check.name,
                "says": check.says,
                "elapsed_s": round(check_s, 2),
                "passed": all(finding.passed for finding in findings),
                "findings": [_as_dict(finding) for finding in findings],
            }
        )
    elapsed_s = time.perf_counter() - started_s
    print(f"{'passed' if passed else 'FAILED'}: {n_findings} findings in {elapsed_s:.0f} s")
    return {
        "passed": passed,
        "elapsed_s": round(elapsed_s, 1),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "checks": entries,
    }


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 if everything passed, 1 if not, 2 for an unknown name."""
    parser = argparse.ArgumentParser(prog="python -m verification", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="checks to run; all if left out")
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all findings to it")
    parser.add_argument("--jobs", type=int, default=1, help="checks that run at once")
    random = parser.add_argument_group("the checks `consistency` and `fuzz`")
    random.add_argument("--seed", type=int, help="of their scenarios and damages")
    random.add_argument(
        "--count",
        type=int,
        help="damaged inputs; scenarios of a kind, and of each threading policy a fifth of that",
    )
    random.add_argument(
        "--kind",
        action="append",
        choices=consistency.KINDS,
        help="check the consistency of this kind only; may be repeated",
    )
    random.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="of the random scenarios, plans and damaged inputs, with `open-loops`, of the points "
        "of `sensitivity` and the engines of `posterior`: 0.1 checks a tenth",
    )
    given = parser.parse_args(arguments)
    if not 0.0 < given.share <= 1.0:
        parser.error(f"argument --share: found {given.share:g}; valid is above 0, up to 1")
    if given.jobs < 1:
        parser.error(f"argument --jobs: found {given.jobs}; valid is 1 or more")

    def counted(count: int) -> dict[str, int]:
        """How many to check of `count`, and the seed if one is asked for."""
        some = given.count or math.ceil(given.share * count)
        return {"count": some} | ({} if given.seed is None else {"seed": given.seed})

    by_name = {check.name: check for check in CHECKS}
    by_name["consistency"] = replace(
        by_name["consistency"],
        run=partial(
            consistency.consistency,
            **{"seed": consistency.SEED, **counted(consistency.COUNT)},
            kinds=given.kind or consistency.KINDS,
        ),
    )
    by_name["fuzz"] = fuzz.check(**counted(fuzz.COUNT))
    by_name["sensitivity"] = sensitivity.check(math.ceil(given.share * sensitivity.POINTS))
    by_name["posterior"] = posterior.check(given.share)
    by_name["plans"] = plans.check(given.share)
    by_name["open-loops"] = open_loops.check(math.ceil(given.share * open_loops.SCENARIOS))
    if given.list:
        for check in CHECKS:
            print(f"{check.name:<18} {check.says}")
        return 0
    unknown = [name for name in given.names if name not in by_name]
    if unknown:
        parser.error(f"no check named {', '.join(unknown)}; there are {', '.join(by_name)}")
    results = run([by_name[name] for name in given.names or by_name], jobs=given.jobs)
    if given.json is not None:
        write_text_atomic(given.json, json.dumps(results, indent=1) + "\n")
        print(f"written: {given.json}", file=sys.stderr)
    return 0 if results["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
