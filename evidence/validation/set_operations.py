"""Published durations of large commands, predicted.

A dataset whose scenario is of `kind: large_commands` and whose points give one command each, and
observe `lasts_s`, is predicted by `models/over_time/large_commands`. Two numbers are fitted to its
calibration points: how long the server waits for a line against what its host's profile says (to
commands whose reply is empty), and how long the client takes to move a page of a growing text (to
those whose reply is not).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from forecache.calibration.validate.comparison import ComparedDataset, FittedFactor, summary_of
from forecache.calibration.validate.dataset import Dataset
from forecache.hwprofiles.files import parse
from forecache.models.over_time.large_commands.commands import CommandTime
from forecache.models.over_time.large_commands.scenario import LargeCommands
from forecache.models.over_time.large_commands.simulate import command_time, data_place, model_error
from forecache.models.over_time.large_commands.work import load_work
from forecache.sim.effort import check_work
from forecache.sim.errors import InputError

from .answer import DatasetValidation, LargeCommandPoint, interval_over_cases

QUANTITY = "lasts_s"

TOUCH_SCALE, COPIED_PAGE_NS = "touch_scale", "copied_page_ns"

_BOUNDS = {TOUCH_SCALE: (0.05, 20.0), COPIED_PAGE_NS: (10.0, 200_000.0)}
_START = {TOUCH_SCALE: 1.0, COPIED_PAGE_NS: 3000.0}
_ROUNDS = 3

_STEPS = 10
"""Values that a search for one number tries, about."""

_LASTING_S = 3e-3
"""What `lasting` takes."""


@dataclass(frozen=True)
class SetOperationDoubt:
    """Factors on what is assumed of the hosts."""

    server_rate: float = 1.0
    client_rate: float = 1.0
    bandwidth: float = 1.0


DOUBTS = tuple(
    SetOperationDoubt(server, client, bandwidth)
    for server in (0.6, 1.4)
    for client in (0.6, 1.6)
    for bandwidth in (0.5, 1.5)
)
"""Instructions per nanosecond of server and client, and bandwidth between them, over what the
profiles of r3 and m1 leave open."""


def is_large_commands(dataset: Dataset) -> bool:
    """Whether it is one of large commands."""
    return dataset.scenario.get("kind") == "large_commands"


def scenarios_of(dataset: Dataset, file: str) -> list[LargeCommands]:
    """Each point as a scenario with one command.

    Raises
    ------
    InputError
        A point is none that the model predicts.
    """
    found = []
    for number, point in enumerate(dataset.points):
        where = f"{file}: points[{number}]"
        if set(point.observed) != {QUANTITY}:
            raise InputError(
                f"{where}.observed: found {', '.join(sorted(point.observed))}; valid is {QUANTITY}."
            )
        data = {**dataset.scenario, "commands": [point.given]}
        found.append(parse(LargeCommands, data, file=where))
    return found


def lasting(
    scenario: LargeCommands, fitted: Mapping[str, float], doubt: SetOperationDoubt | None = None
) -> CommandTime:
    """The command of a scenario under fitted numbers."""
    given = scenario.model_copy(
        update={
            "server": scenario.server.model_copy(update={TOUCH_SCALE: fitted[TOUCH_SCALE]}),
            "client": scenario.client.model_copy(update={COPIED_PAGE_NS: fitted[COPIED_PAGE_NS]}),
        }
    )
    if doubt is None:
        place, _ = data_place(given)
    else:
        plain, _ = data_place(given)
        host, far = plain.server.host, plain.client.speed.host
        network = plain.link.gbit_per_s * doubt.bandwidth
        given = given.model_copy(
            update={"network": given.network.model_copy(update={"gbit_per_s": network})}
        )
        place, _ = data_place(
            given,
            values={"user_ipc": host.user_ipc * doubt.server_rate},
            client_values={"user_ipc": far.user_ipc * doubt.client_rate},
        )
    return command_time(given.commands[0], given, place)


def fit(
    scenarios: Sequence[LargeCommands],
    observed: Sequence[float],
    rows: Sequence[int],
    doubt: SetOperationDoubt | None = None,
) -> dict[str, float]:
    """The two numbers, from the calibration points alone: the rest of each explains the other."""
    found = dict(_START)
    replies = {n: lasting(scenarios[n], found, doubt).elements > 0 for n in rows}
    for _ in range(_ROUNDS):
        for name, wanted in ((TOUCH_SCALE, False), (COPIED_PAGE_NS, True)):
            points = [n for n in rows if replies[n] is wanted]
            if points:
                found[name] = _solved(name, scenarios, observed, points, found, doubt)
    return found


def _solved(
    name: str,
    scenarios: Sequence[LargeCommands],
    observed: Sequence[float],
    points: Sequence[int],
    found: Mapping[str, float],
    doubt: SetOperationDoubt | None,
) -> float:
    """The value at which the logarithms of durations agree in the mean, within its bounds."""

    def off(log_value: float) -> float:
        fitted = {**found, name: math.exp(log_value)}
        return float(
            np.mean(
                [
                    math.log(lasting(scenarios[n], fitted, doubt).lasts_ns / 1e9 / observed[n])
                    for n in points
                ]
            )
        )

    low, high = (math.log(bound) for bound in _BOUNDS[name])
    if off(low) > 0 or off(high) < 0:
        return math.exp(low if off(low) > 0 else high)
    return math.exp(brentq(off, low, high, xtol=1e-5))


def validate_large_commands(dataset: Dataset, file: str) -> DatasetValidation:
    """Fit the calibration points, predict all; the metric is `lasts_s`.

    Raises
    ------
    InputError
        A point is none that the model predicts, or they are too many.
    """
    scenarios = scenarios_of(dataset, file)
    observed = [float(point.observed[QUANTITY] or np.nan) for point in dataset.points]
    rows = [n for n, point in enumerate(dataset.points) if point.role == "calibration"]
    each_fit = len(rows) * (1 + _ROUNDS * _STEPS) + len(scenarios)
    check_work(
        (1 + len(DOUBTS)) * each_fit * _LASTING_S,
        f"{file}: {len(scenarios):,} points, {len(rows):,} of them to calibrate with",
        smaller="fewer points",
        progress=None,
    )
    fitted = fit(scenarios, observed, rows)
    nominal = [lasting(scenario, fitted) for scenario in scenarios]
    others = []
    for doubt in DOUBTS:
        again = fit(scenarios, observed, rows, doubt)
        others.append([lasting(each, again, doubt).lasts_ns / 1e9 for each in scenarios])
    points = []
    for number, point in enumerate(dataset.points):
        value = nominal[number].lasts_ns / 1e9
        chosen = load_work(scenarios[number].engine, scenarios[number].engine_version)
        predicted = interval_over_cases(
            value,
            [each[number] for each in others],
            error=model_error(chosen.work.errors.lasts, chosen),
        )
        points.append(
            LargeCommandPoint(
                index=number,
                given=point.given,
                role=point.role,
                observed={QUANTITY: observed[number]},
                predicted={QUANTITY: predicted},
                bound_by=nominal[number].binds,
                parts_s=parts_s(nominal[number]),
            )
        )
    notes = {
        TOUCH_SCALE: "the server's waits for memory against its host's profile",
        COPIED_PAGE_NS: "the client moves a page of a growing text to new memory; ns",
    }
    return DatasetValidation(
        dataset=ComparedDataset(dataset.id, dataset.title, file),
        fitted=[
            FittedFactor(name, value, value, value, 0.0, rows, notes[name])
            for name, value in fitted.items()
        ],
        points=points,
        summary=summary_of(points, [QUANTITY]),
    )


def parts_s(what: CommandTime) -> dict[str, float]:
    """Where the time goes."""
    return {
        "blocks": what.execution_ns / 1e9,
        "server": what.moved.server_ns / 1e9,
        "network": what.moved.network_ns / 1e9,
        "client": what.moved.client_ns / 1e9,
        "prints": what.print_ns / 1e9,
        "main_thread": what.main_thread_ns / 1e9,
    }
