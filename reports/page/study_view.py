"""What the page says about a study: its targets, the calibration and the host."""

from pathlib import Path
from typing import Any

from forecache.hwprofiles.files import dump_yaml

from ..study_answer import Study
from ..study_inputs import scenario_name
from ..text.formats import moment
from ..text.method import method_paragraphs, question_text, threats
from ..text.repeat import Question, command_line, repeat_view, texts_sha256
from .basis_view import calibration_view, host_view
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
