"""What the page says about a study: its targets, the calibration and the host."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from forecache.calibration.fit.report import CalibrationReport, FitPoint
from forecache.hwprofiles.files import dump_yaml

from .. import figures
from ..study_answer import HostNumbers, Study, scenario_name
from ..text.accuracy import (
    accuracy_rows,
    determined_text,
    parameter_rows,
    quantities,
    quantity_name,
    without_common_note,
    worst_points,
)
from ..text.formats import moment, sentence
from ..text.method import method_paragraphs, question_text, threats
from ..text.repeat import Question, command_line, repeat_view, texts_sha256
from ..text.settings import engine_name
from ..text.wording import depth_phrase
from .drawing import Drawer
from .sensitivity_view import sensitivity_view
from .target_view import target_view


def study_view(study: Study, question: Question) -> dict[str, Any]:
    """Return the template's context for a whole study."""
    drawer = Drawer()
    named = [(target.name, target) for target in study.targets]
    return {
        "title": study.title,
        "byline": [f"Scenario {study.scenario_name}", moment(study.created)],
        "question": question_text(study),
        "targets": [
            target_view(t, drawer, name=name, index=i) for i, (name, t) in enumerate(named)
        ],
        "warnings": study.warnings,
        "sensitivity": sensitivity_view(named, drawer),
        "calibration": calibration_view(study.calibration, drawer),
        "host": host_view(study.host_profile, drawer),
        "method": method_paragraphs(study),
        "threats": threats(study),
        "repeat": repeat_view(
            study.provenance,
            question,
            measured=_MEASURED,
            extra="engine",
        ),
    }


_MEASURED = (
    "What is measured differs from day to day within the ranges given here, and on another machine "
    "beyond them; predictions follow it."
)


def study_question(study: Study) -> Question:
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


# --- what the predictions rest on, for the page: calibration and host profile ---------------------


def calibration_view(calibration: CalibrationReport, drawer: Drawer) -> dict[str, Any]:
    """Return the template's context for the calibration."""
    engine = calibration.engine
    drawn = []
    for quantity, group in quantities(calibration.points).items():

        def make(
            width: int, group: list[FitPoint] = group, quantity: str = quantity
        ) -> Figure | None:
            return figures.accuracy(group, quantity=quantity, width_px=width)

        name = quantity_name(quantity)
        view = drawer.draw(
            make,
            title=f"Predicted against observed: {name}",
            caption="Shaded: within ±20%; inner lines: ±10%. Held-out points were not fitted.",
            label=f"Predicted against observed {name}, fitted and held-out points.",
            width_px=figures.WIDE_PX,
        )
        if view is not None:
            drawn.append(view)
    parameters, about_parameters = without_common_note(parameter_rows(calibration.parameters))
    return {
        "engine": engine_name(engine),
        "depth": depth_phrase(engine.depth),
        "rows": accuracy_rows(calibration),
        "figures": drawn,
        "worst": worst_points(calibration),
        "determined": determined_text(calibration.identifiability.directions),
        "untold": [sentence(each) for each in calibration.identifiability.words],
        "parameters": parameters,
        "about_parameters": about_parameters,
    }


def host_view(host: HostNumbers, drawer: Drawer) -> dict[str, Any]:
    """Return the template's context for the host profile."""
    return {
        "id": host.id,
        "figure": drawer.draw(
            lambda width: figures.memory_latency(host, width_px=width),
            title="Memory latency of the host",
            caption="Each load depends on the one before it; steps are where a cache ends.",
            label="Latency of a dependent load by working set.",
        ),
        "parameters": parameter_rows(host.rows),
    }
