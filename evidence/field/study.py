"""Every case predicted with the verbs, as a user would, and kept beside what was measured."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import forecache
from forecache.hwprofiles.files import read_yaml
from forecache.sim.errors import ForecacheError, InputError

from ..harness import Asked, Files
from .cases import SCENARIOS, Case, Given, Measured, Range, Ratio, Value, at_point, load_cases
from .page import PAGE, page
from .quantities import QUANTITIES, Answer, Point

ARTEFACT = Path("docs/accuracy/field.json")

Row = dict[str, Any]


class Verbs:
    """Answers of the verbs for the scenarios of the cases, each asked for once.

    Files are named as they lie: what a scenario names, such as an instance of its own, lies beside
    it, and verbs are run from there.
    """

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._answers: dict[tuple[str, str], Answer] = {}
        self._ratios: dict[str, Answer] = {}

    def answer(self, verb: str, scenario: str) -> Answer:
        """What `simulate` or `memory` answers, as plain data."""
        key = verb, scenario
        if key not in self._answers:
            self._progress(f"{verb} {scenario}")
            with contextlib.chdir(SCENARIOS):
                found = getattr(forecache, verb)(scenario)
            self._answers[key] = found.to_dict()
        return self._answers[key]

    def compare(self, before: Any, after: Any) -> Answer:
        """What `compare` answers for two files, or for two scenarios as mappings."""
        key = json.dumps([before, after], sort_keys=True)
        if key not in self._ratios:
            self._progress(f"compare {_name(before)} {_name(after)}")
            with contextlib.chdir(SCENARIOS):
                self._ratios[key] = forecache.compare(before, after).to_dict()
        return self._ratios[key]


def _name(scenario: Any) -> str:
    return scenario if isinstance(scenario, str) else "a point"


def artefact(asked: Asked) -> Files:
    """Predict every case, or those asked for; the others stay as they were predicted last."""
    cases = load_cases()
    known = [case.case for case in cases]
    wanted = asked.of(known)
    if unknown := set(wanted) - set(known):
        raise InputError(f"found case {', '.join(sorted(unknown))}; valid are {', '.join(known)}.")
    rows = kept_rows() if asked.only else []
    verbs = Verbs(asked.progress)
    made = {case.case: rows_of(case, verbs) for case in cases if case.case in wanted}
    kept = {name: [row for row in rows if row["case"] == name] for name in known}
    found = [row for name in known for row in made.get(name, kept[name])]
    return {ARTEFACT: json.dumps({"rows": found}, indent=1, ensure_ascii=False) + "\n"}


def kept_rows() -> list[Row]:
    """The rows of the artefact."""
    rows: list[Row] = json.loads(ARTEFACT.read_text(encoding="utf-8"))["rows"]
    return rows


def pages() -> Files:
    """The page, from the artefact."""
    return {PAGE: page(load_cases(), kept_rows())}


def rows_of(case: Case, verbs: Verbs) -> list[Row]:
    """All rows of a case: values, then ratios."""
    rows: list[Row] = []
    for measured in case.measured:
        rows += _values(case, measured, verbs)
    for measured in case.measured:
        rows += _shape(case, measured, verbs)
    for ratio in case.ratios:
        rows += _ratio(case, ratio, verbs)
    return rows


def _values(case: Case, measured: Measured, verbs: Verbs) -> Iterator[Row]:
    """A row for each measured number."""
    verb = measured.verb or case.verb
    for name, values in measured.values.items():
        quantity = QUANTITIES[name]
        for number, value in enumerate(values if isinstance(values, list) else [values]):
            row: Row = {
                "case": case.case,
                "kind": "value",
                "quantity": name,
                "which": measured.which,
                "note": measured.note,
                "measured": _plain(value),
                "scored": case.machine != "unknown" or not quantity.of_machine,
            }
            if measured.scenario is None:
                yield row | {"scenario": None, "predicted": None, "why": measured.no_scenario}
                continue
            several = isinstance(measured.scenario, list)
            scenario = measured.scenario[number] if several else str(measured.scenario)
            given = dict(measured.given)
            given |= {field: points[number] for field, points in measured.at.items()}
            row |= {"scenario": scenario, "given": given, "command": f"{verb} {scenario}"}
            ask = partial(verbs.answer, verb, scenario)
            yield row | _read(name, measured.unknown, given, ask)


def _read(
    name: str, unknown: list[str], given: Mapping[str, Given], ask: Callable[[], Answer]
) -> Row:
    """`predicted`, or why there is nothing."""
    try:
        points = ask()["points"]
    except ForecacheError as error:
        return {"predicted": None, "why": str(error)}
    quantity = QUANTITIES[name]
    asked = [points] if quantity.of_all else _chosen(points, given, unknown)
    found = [read for each in asked if (read := quantity.read(each)) is not None]
    if len(found) < len(asked):
        return {"predicted": None, "why": "the answer does not say it"}
    if len(found) == 1:
        return {"predicted": found[0]}
    if "text" in found[0]:
        texts = list(dict.fromkeys(each["text"] for each in found))
        return {"predicted": {"texts": texts}, "range_over": unknown}
    return {
        "predicted": {
            "low": min(each.get("low", each.get("value")) for each in found),
            "high": max(each.get("high", each.get("value")) for each in found),
        },
        "range_over": unknown,
    }


def _chosen(points: list[Point], given: Mapping[str, Given], unknown: list[str]) -> list[Point]:
    """The points of a sweep that are meant."""
    found = [p for p in points if all(p["given"].get(name) == v for name, v in given.items())]
    if not found or (len(found) > 1 and not unknown):
        swept = [point["given"] for point in points]
        raise InputError(f"found {len(found)} points with {dict(given)} of {swept}; valid is one.")
    return found


def _shape(case: Case, measured: Measured, verbs: Verbs) -> Iterator[Row]:
    """Throughput over that at the first point of a sweep, where the machine is not known."""
    values = measured.values.get("throughput_rps")
    if case.machine != "unknown" or not measured.at or not isinstance(values, list):
        return
    scenario = str(measured.scenario)
    data = read_yaml(SCENARIOS / scenario)
    [(field, points)] = measured.at.items()
    first = at_point(data, measured.given | {field: points[0]})
    for value, point in zip(values[1:], points[1:], strict=True):
        given = measured.given | {field: point}
        row: Row = {
            "case": case.case,
            "kind": "ratio",
            "quantity": "throughput_rps",
            "which": measured.which,
            "scenario": scenario,
            "given": given,
            "over_given": {field: points[0]},
            "measured": round(float(value) / float(values[0]), 4),  # type: ignore[arg-type]
            "scored": True,
            "command": f"make evidence STUDY=field ONLY={case.case}",
        }
        yield row | _compared(verbs, first, at_point(data, given), "throughput_rps")


def _ratio(case: Case, ratio: Ratio, verbs: Verbs) -> Iterator[Row]:
    """A row for each quantity of two files."""
    before, after = (
        at_point(read_yaml(SCENARIOS / name), ratio.given) if ratio.given else name
        for name in (ratio.to, ratio.of)
    )
    command = f"compare {ratio.to} {ratio.of}"
    if ratio.given:
        command = f"make evidence STUDY=field ONLY={case.case}"
    for name, value in ratio.values.items():
        row: Row = {
            "case": case.case,
            "kind": "ratio",
            "quantity": name,
            "scenario": ratio.of,
            "over": ratio.to,
            "given": dict(ratio.given),
            "measured": value,
            "scored": True,
            "command": command,
        }
        yield row | _compared(verbs, before, after, name)


def _compared(verbs: Verbs, before: Any, after: Any, name: str) -> Row:
    try:
        answer = verbs.compare(before, after)
    except ForecacheError as error:
        return {"predicted": None, "why": str(error)}
    found = [each["ratio"] for each in answer["differences"] if each["quantity"] == name]
    if not found or found[0] is None:
        return {"predicted": None, "why": "the answer does not say it"}
    return {"predicted": {key: found[0][key] for key in ("value", "low", "high")}}


def _plain(value: Value) -> Any:
    return value.model_dump() if isinstance(value, Range) else value
