"""A study: recommendations for its hosts, and what they rest on."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from forecache.calibration.fit.report import CalibrationReport
from forecache.hwprofiles.files import dump_yaml
from forecache.models.advice.node_answers import Recommended, StudyTarget
from forecache.models.advice.recommend import Recommendation

from ..document import (
    PAGE,
    TERMINAL,
    Beside,
    Document,
    Figure,
    Items,
    Part,
    Section,
    Text,
    TextTable,
    Warnings,
    words,
)
from ..study_answer import HostNumbers, Study, scenario_name
from ..text.formats import UNKNOWN, moment, percent, rate_with_bounds, sentence, time_with_bounds
from ..text.points import by_threads, chosen_point, is_outside, limit_name, target_warnings
from ..text.repeat import Question, command_line, texts_sha256
from ..text.settings import setting_name, setting_text
from ..tidy import TidyTable, point_cells, tidy
from . import drawing
from .calibration import (
    accuracy_figures,
    accuracy_parts,
    determined_text,
    quantities,
    quantity_name,
    role_name,
    untold_parts,
    without_common_note,
    worst_parts,
)
from .explained import intervals_section, parameters_table
from .recommended import action, next_limit_phrase, recommended_tables, target_section

_MEASURED = (
    "What is measured differs from day to day within the ranges given here, and on another machine "
    "beyond them; predictions follow it."
)
_KINDS = (
    ("measured", "on this host"),
    ("fitted", "to measurements"),
    ("prior", "fitted too, but these data tell less than a tenth of what is known of it"),
    ("published", "by a cited source"),
    ("derived", "from other values by a formula"),
    ("assumed", "within a range"),
)


def study(answer: Study) -> Document:
    """The recommendation for each host, then how far to trust it and how it was found."""
    targets = [(target.name, target) for target in answer.targets]
    head: list[Part] = [
        Text(_question_text(answer), on=PAGE),
        Warnings(answer.warnings, "About this study", whole=True),
    ]
    return Document(
        about=f"{answer.title}, {moment(answer.created)}",
        title=answer.title,
        headline="; ".join(f"{name}: {action(each.recommendation)}" for name, each in targets),
        byline=[f"Scenario {answer.scenario_name}", moment(answer.created)],
        contents=True,
        one_column=False,
        sections=[
            Section("", head),
            *([_summary(answer.targets)] if len(answer.targets) > 1 else []),
            *(
                target_section(target, name=name, number=number, warnings=target_warnings(target))
                for number, (name, target) in enumerate(targets, start=1)
            ),
            intervals_section(targets),
            Section("Calibration", accuracy_parts(answer.calibration), on=TERMINAL),
            _calibration(answer.calibration),
            Section(
                "Method",
                [Text(paragraph) for paragraph in _method(answer)],
                anchor="method",
                on=PAGE,
            ),
            Section("Threats to validity", [Items(_threats(answer))], anchor="threats", on=PAGE),
            _parameters(answer.calibration, answer.host_profile),
        ],
        tables=_tables(answer),
        question=lambda: _question(answer),
        measured=_MEASURED,
        needs="engine",
    )


def _tables(answer: Study) -> dict[str, Callable[[], TidyTable]]:
    """Its numbers, those of each host one after the other."""
    Rows = Iterable[Mapping[str, Any]]

    def of_targets(rows: Callable[[StudyTarget], Rows]) -> Callable[[], TidyTable]:
        def table() -> TidyTable:
            return tidy(
                [
                    {"target": x.name, "host": x.host.id, "engine": x.engine.id, **row}
                    for x in answer.targets
                    for row in rows(x)
                ]
            )

        return table

    def points(target: StudyTarget) -> Rows:
        return ({**point.given, **point_cells(point)} for point in target.points)

    def load_curve(target: StudyTarget) -> Rows:
        return ({"offered_rps": x.offered_rps, **point_cells(x)} for x in target.load_curve)

    def stages(target: StudyTarget) -> Rows:
        for point in target.points:
            for x in point.stages:
                names = {"stage": x.stage, "thread": x.thread}
                yield {**point.given, **names, "cpu_us_per_request": x.us_per_request}

    def alternatives(target: StudyTarget) -> Rows:
        for row in target.recommendation.regret:
            yield {
                "io_threads": row.io_threads,
                "throughput_loss": row.throughput_loss,
                "throughput_loss_low": row.low,
                "throughput_loss_high": row.high,
                "why_not": row.why_not,
            }

    def interval_parts(target: StudyTarget) -> Rows:
        for point in target.points:
            parts = vars(point.uncertainty).items()
            widths = {f"{name}_relative_half_width": width for name, width in parts}
            yield {**point.given, **widths}

    def sensitivity(target: StudyTarget) -> Rows:
        """What can be chosen after what is uncertain."""
        found = target.sensitivity
        if found is None:
            return
        for inputs, indices in (("uncertain", found.uncertain), ("choice", found.choices)):
            for index in indices.indices if indices is not None else ():
                yield {
                    **found.at,
                    "quantity": found.quantity,
                    "inputs": inputs,
                    "name": index.name,
                    "total_order_index": index.total.value,
                    "total_order_index_low": index.total.low,
                    "total_order_index_high": index.total.high,
                }

    def calibration() -> TidyTable:
        names = [
            *("role", "quantity", "observed_ns", "predicted_ns", "observed_rps", "predicted_rps"),
            "relative_error",
        ]
        return tidy(
            [
                {
                    "point": json.dumps(dict(point.given), ensure_ascii=False),
                    **{name: getattr(point, name) for name in names},
                }
                for point in answer.calibration.points
            ]
        )

    def parameters() -> TidyTable:
        names = ("name", "value", "unit", "low", "high", "kind", "note")
        both = (("engine", answer.calibration.parameters), ("host", answer.host_profile.rows))
        return tidy(
            [
                {"of": of, **{name: getattr(row, name, None) for name in names}}
                for of, numbers in both
                for row in numbers
            ]
        )

    def memory_latency() -> TidyTable:
        curve = answer.host_profile.latency_curve
        return tidy([{"working_set_bytes": size, "load_ns": ns} for size, ns in curve])

    by_target = (points, load_curve, stages, alternatives, interval_parts, sensitivity)
    return {
        **{rows.__name__: of_targets(rows) for rows in by_target},
        "calibration": calibration,
        "parameters": parameters,
        "memory_latency": memory_latency,
    }


def study_target(answer: StudyTarget) -> Document:
    """One host of a study."""
    return Document(
        about="",
        headline=setting_text(answer.recommendation.chosen),
        warnings=target_warnings(answer),
        sections=[target_section(answer)],
        tables=recommended_tables(answer),
    )


def _summary(targets: Sequence[StudyTarget]) -> Section:
    """A row for each host."""
    advice = [target.recommendation for target in targets]
    points = [chosen_point(target) for target in targets]
    table = TextTable(
        [
            words("target", [target.name for target in targets]),
            words("run", list(map(_summary_setting, advice))),
            words("throughput (95%)", [rate_with_bounds(x.throughput_rps) for x in advice]),
            words("p99", [time_with_bounds(point.p99_ms) for point in points]),
            words("limited by", list(map(limit_name, advice))),
            words("next limit", [next_limit_phrase(x) or UNKNOWN for x in advice]),
        ],
        lead=1,
        targets=[f"target-{number}" for number, _ in enumerate(targets, start=1)],
        stacked=True,
    )
    return Section("Recommendations", [table], on=PAGE)


def _summary_setting(recommendation: Recommendation) -> str:
    chosen = setting_text(recommendation.chosen)
    met = recommendation.setting is not None
    return chosen if met else f"none meets the objective (closest: {chosen})"


def _calibration(report: CalibrationReport) -> Section:
    figures = accuracy_figures(report)
    empty = Text("No calibration point has both an observed and a predicted value.", "muted")
    parts: list[Part] = [
        Beside(
            figures or [empty],
            [
                Section("Errors", accuracy_parts(report)),
                Section("Largest errors", worst_parts(report, most=8)),
            ],
        )
    ]
    untold = report.identifiability
    if untold.words:
        sentences = list(map(sentence, untold.words))
        title = "What the data can’t tell"
        parts.append(Section(title, untold_parts(untold.directions, sentences)))
    title = "How far to trust it: calibration"
    return Section(title, parts, anchor="calibration", on=PAGE)


def _parameters(report: CalibrationReport, host: HostNumbers) -> Section:
    """Every number of the engine and of the host, and where it comes from."""
    kinds = TextTable(
        [
            words("", [kind for kind, _ in _KINDS], style="kind"),
            words("", [words for _, words in _KINDS]),
        ]
    )
    engine: list[Part] = []
    if report.parameters:
        rows = [{"kind": row.kind, "note": row.note} for row in report.parameters]
        shorter, about = without_common_note(rows)
        notes = [row["note"] for row in shorter]
        engine = [
            *([Text(about, "muted")] if about else []),
            parameters_table(report.parameters, notes),
        ]
    latency = Figure(
        "memory-latency",
        drawing("memory_latency", host),
        title="Memory latency of the host",
        caption="Each load depends on the one before it; steps are where a cache ends.",
        label="Latency of a dependent load by working set.",
    )
    numbers: list[Part] = [parameters_table(host.rows)] if host.rows else []
    return Section(
        "Parameters and where they come from",
        [
            kinds,
            Section("Engine", engine),
            Beside([latency], [Section(f"Host {host.id}", numbers)], equal=True),
        ],
        anchor="parameters",
        on=PAGE,
    )


def _question(study: Study) -> Question:
    """What was asked, of a scenario that lies where the command is typed."""
    name = Path(study.scenario_name).name
    command = study.provenance.command.replace(study.scenario_name, name)
    inputs = dict(study.inputs or {})
    hashes = {**texts_sha256(inputs), **(study.hashes or {})}
    own = inputs.pop(name, None) or (dump_yaml(dict(study.scenario)) if study.scenario else "")
    scenarios = [(name, own)] if own else []
    seed = study.provenance.seed
    again = [
        command_line("recommend", [scenario], {"--seed": seed})
        for target in study.targets
        if (scenario := scenario_name(target)) in inputs
    ]
    return Question(command, scenarios, hashes, again, list(inputs.items()))


# --- sentences -----------------------------------------------------------------------------------


def _question_text(study: Study) -> str:
    """The question, with the engine and the hosts."""
    engine = study.calibration.engine
    hosts = " and ".join(target.host.title for target in study.targets)
    return (
        f"How many I/O threads should {engine.name} {engine.version} run for the workload of "
        f"{study.scenario_name}, what does it then serve, and how sure is that, on {hosts}?"
    )


def _method(study: Study) -> list[str]:
    """How the study found its answer."""
    calibration, threads = study.calibration, _threads(study)
    roles = Counter(point.role for point in calibration.points)
    counted = " and ".join(f"{n} {role_name(role)}" for role, n in roles.items())
    names = ", ".join(quantity_name(name) for name in quantities(calibration.points))
    observed = (
        f"{counted} quantities ({names}). Those held out played no part in the fit. "
        f"{determined_text(calibration.identifiability.directions)}"
        if calibration.points
        else "No point of the calibration has both an observed and a predicted value."
    )
    return [
        "Work × speed = time. The work of the engine (instructions, system calls and cache lines "
        "of each step of a request) was fitted to a real engine that was driven on this host. The "
        "speed of a host says how long each of them takes. Their product is the duration of every "
        "step, and a discrete-event simulation of threads, clients, load generator and network "
        "turns the durations into throughput and latency.",
        f"This host was profiled by micro-benchmarks; each of its numbers says below how it is "
        f"known. On it {calibration.engine.name} {calibration.engine.version} was observed "
        f"at points that vary pipeline, value size, number of keys and connections: {observed}",
        f"The engine was then simulated at {threads}, with seed {study.provenance.seed} and the "
        "same random streams at every setting. Repeated runs under draws of all uncertain numbers "
        "give the 95% intervals, which include the model’s own error; settings are compared in "
        "pairs under the same draws.",
    ]


def _threads(study: Study) -> str:
    name = setting_name("io_threads")
    listed = [
        ", ".join(f"{x:g}" for x, _ in by_threads(target)) + f" ({target.name})"
        for target in study.targets
    ]
    return f"{name} {'; '.join(listed)}"


def _threats(study: Study) -> list[str]:
    """What may make the answer wrong, without what other sections list."""
    calibration = study.calibration
    found = [each for each in calibration.warnings if each not in study.warnings]
    if study.warnings:
        found.insert(
            0, "What was wrong with the observation stands at the top: “About this study”."
        )
    if calibration.identifiability.words:
        found.append(
            f"{determined_text(calibration.identifiability.directions)} “What the data can’t tell” "
            "lists them."
        )
    worst = [
        f"{percent(max(abs(point.relative_error) for point in group))} ({quantity_name(quantity)})"
        for quantity, group in quantities(calibration.points).items()
    ]
    if worst:
        found.append(
            f"The worst points are off by {', '.join(worst)}; a prediction elsewhere may be, too."
        )
    assumed = sum(row.kind == "assumed" for row in study.host_profile.rows)
    if assumed:
        found.append(
            f"{assumed} numbers of {study.host_profile.id} are assumed within a range, "
            "not measured."
        )
    for target in study.targets:
        found += _host_threats(target, target.name)
    found.append(
        "One machine, one build and one day were observed. Another build, kernel, hypervisor or "
        "neighbour may change the work or the speed."
    )
    return list(dict.fromkeys(found))


def _host_threats(target: Recommended, name: str) -> list[str]:
    """What is special about a host."""
    found = []
    if target.host.kind == "catalogue":
        found.append(
            f"{name}: the profile comes from the catalogue. Nothing was run on this machine, "
            "so its numbers are those published, or assumed within a range."
        )
    outside = [f"{x:g}" for x, point in by_threads(target) if is_outside(point)]
    if outside:
        found.append(
            f"{name}: {setting_name('io_threads')} {', '.join(outside)} lie outside the range "
            "that the calibration covers."
        )
    if chosen_point(target).bottleneck == "load generator":
        found.append(f"{name}: the load generator limits, so the server’s own limit is not seen.")
    return found
