"""The reports, each as one self-contained HTML file: no script, no request, figures inline.

`study_view.py` turns a study into plain strings and figures, `target_view.py` a recommendation,
`node_view.py` other answers about a node, `series_view.py` a result over time, `plan_view.py` a
capacity plan; a template lays them out. Jinja2 escapes every string; only the figures, which this
package draws, pass through as markup.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from forecache.models.advice.compare import NodeComparison
from forecache.models.advice.node_answers import Explained, Recommended, Simulated
from forecache.models.plan.results import PlanAnswer
from forecache.models.results.series import RunsOverTime

from ..study_answer import Study
from ..text.repeat import Question, asked
from .node_view import compared_view, explained_view, simulated_view
from .plan_view import plan_view
from .series_view import series_view
from .study_view import study_question, study_view
from .target_view import recommended_view

_WORD_END = re.compile(r"([._])(?=\w)")
_CODE = re.compile(r"`([^`]+)`")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_template_text),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["worded"] = _worded
    environment.filters["breakable"] = _breakable
    return environment


def _worded(text: str) -> Markup:
    """A sentence, in which what stands between backticks is code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _breakable(name: str) -> Markup:
    """A dotted name that may take several lines, broken between its words only."""
    return Markup(_WORD_END.sub(r"\1<wbr>", str(escape(name))))


def _template_text(name: str) -> str:
    return files("forecache.reports.page").joinpath("templates", name).read_text(encoding="utf-8")


Answer = Study | RunsOverTime | PlanAnswer | Recommended | Simulated | Explained | NodeComparison
"""What is worth keeping as a page or a paper."""


def holds_question(answer: Answer) -> bool:
    """Whether an answer holds its scenario as it was given: all do but those about nodes."""
    return isinstance(answer, Study | RunsOverTime | PlanAnswer)


def question_of(answer: Answer) -> Question:
    """What was asked, of an answer that holds it."""
    if isinstance(answer, Study):
        return study_question(answer)
    if isinstance(answer, RunsOverTime):
        several = answer.seeds if answer.seeds > 1 else None
        options = {"--seed": answer.provenance.seed, "--seeds": several}
        return asked("simulate", answer.scenario, options=options)
    assert isinstance(answer, PlanAnswer)
    return asked("plan", answer.scenario, options={"--seed": answer.provenance.seed})


def render_html(answer: Answer, question: Question | None = None, *, paper: bool = False) -> str:
    """Return an answer as a complete HTML page.

    Style and figures are inside it. It needs no script and loads nothing.

    Parameters
    ----------
    question
        What was asked; what `question_of` says if left out.
    paper
        Order sections as a paper does: how it was found before what was found.
    """
    question = question or question_of(answer)
    for kinds, template, view in _PAGES:
        if isinstance(answer, kinds):
            return _page(template, view(answer, question), paper=paper)
    raise TypeError(f"no page shows a {type(answer).__name__}")


_PAGES: list[tuple[type, str, Callable[[Any, Question], dict[str, Any]]]] = [
    (Study, "report.html.jinja", study_view),
    (Recommended, "report.html.jinja", recommended_view),
    (RunsOverTime, "series.html.jinja", series_view),
    (PlanAnswer, "plan.html.jinja", plan_view),
    (Simulated, "node.html.jinja", simulated_view),
    (Explained, "node.html.jinja", explained_view),
    (NodeComparison, "node.html.jinja", compared_view),
]


def _page(template: str, view: dict[str, Any], *, paper: bool) -> str:
    # Our own style sheet, not user text; escaping would break its quotes.
    css = Markup(_template_text("report.css"))
    narrow = template != "report.html.jinja"
    made = _environment().get_template(template)
    return made.render(**view, css=css, narrow=narrow, paper=paper)
