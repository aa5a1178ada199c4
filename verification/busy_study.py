"""A study made while another program has one CPU says of another host what the catalogue says.

What disturbs the observation belongs to this host. The engine that goes to the other host was
known before, so a bad quarter of an hour must not move the answer beyond the catalogue's interval.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forecache.models.advice.answers import load_cases
from forecache.models.prediction.predict import predict_cases
from forecache.reports.study import study

from .check import Check, Finding, within_range

SCENARIO = Path(__file__).parents[1] / "examples" / "quickstart.yaml"
LONGEST_S = 480.0
"""Three minutes on two CPUs of Zen 5 and three and a half on Zen 3, of which one is busy. More than
twice that is a study that has grown."""


@contextmanager
def _one_cpu_busy() -> Iterator[None]:
    """Another program that computes on the last CPU all the time."""
    last = max(os.sched_getaffinity(0))
    program = f"import os\nos.sched_setaffinity(0, {{{last}}})\nwhile True: pass"
    busy = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def _findings() -> list[Finding]:
    with tempfile.TemporaryDirectory() as scratch, _one_cpu_busy():
        began_s = time.monotonic()
        answer = study(SCENARIO, out=Path(scratch) / "study", progress=_say)
        took_s = time.monotonic() - began_s
    there = answer.targets[1]
    catalogue = predict_cases(load_cases(SCENARIO))
    findings = []
    for point, prediction in zip(there.points, catalogue, strict=True):
        known, found = prediction.interval("throughput_rps"), point.throughput_rps
        what = f"c7g.4xlarge, io-threads {point.given['io_threads']}, requests/s"
        findings.append(within_range(what, known.value, found.value, known.low, known.high))
    findings.append(within_range("seconds it takes", LONGEST_S, took_s, 0.0, LONGEST_S))
    return findings


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


CHECKS = [
    Check(
        "busy-study",
        "a study beside another program that has one CPU, against the catalogue",
        _findings,
        alone=True,
    )
]
