"""The verbs of the command line, in the order of the work; each is imported when it is run."""

from importlib import import_module
from typing import NamedTuple

import click


class Verb(NamedTuple):
    """Where a verb's command is, and its line in the list of verbs."""

    module: str
    """Of this package; the command has the name of the verb there."""
    short: str
    """At most 60 characters."""


VERBS = {
    "study": Verb("study", "Measure, predict and report, all in one."),
    "report": Verb("report", "Write a study as a paper, figures and data."),
    "profile": Verb("machine", "Measure this host, or a benchmark tool."),
    "observe": Verb("engine", "Drive a real engine and record its performance."),
    "calibrate": Verb("engine", "Fit an engine profile to an observation."),
    "validate": Verb("engine", "Compare predictions with published measurements."),
    "simulate": Verb("prediction", "Predict throughput, latency and utilisation."),
    "sweep": Verb("sweep", "Answer 100,000 points into Parquet files."),
    "recommend": Verb("prediction", "Recommend the number of I/O threads."),
    "explain": Verb("prediction", "Show where the time of a request goes."),
    "compare": Verb("compare", "Predict what one scenario gains over another."),
    "explore": Verb("explore", "Open a local page whose plots follow its controls."),
    "check": Verb("check", "Compare a prediction with what you measured."),
    "memory": Verb("memory", "Compute the memory footprint, and how many keys fit."),
    "cost": Verb("cost", "Compute what a cache costs a month."),
    "plan": Verb("plan", "Find the cheapest machines, shards and engine."),
    "catalog": Verb("machine", "List hosts, instances, engines and datasets, or show one."),
    "doctor": Verb("doctor", "Say what this machine allows, and what would help."),
}


def command(name: str) -> click.Command:
    """Import the command of a verb."""
    found: click.Command = getattr(import_module(f".{VERBS[name].module}", __name__), name)
    return found


def all_commands() -> list[click.Command]:
    """Import all of them, in the order of `VERBS`."""
    return [command(name) for name in VERBS]
