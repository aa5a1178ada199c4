"""The reports, each as one self-contained HTML file: no script, no request, figures inline.

`study_view.py` turns a study and a recommendation into plain strings and figures, `node_view.py`
other answers about a node, `series_view.py` a result over time, `plan_view.py` a capacity plan; a
template lays them out. Jinja2 escapes every string; only the figures, which this package draws,
pass through as markup.
"""

import re
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
from ..text.repeat import Asked, asked
from .node_view import compared_view, explained_view, simulated_view
from .plan_view import plan_view
from .series_view import series_view
from .study_view import recommended_view, study_view

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


def render_html(study: Study, *, paper: bool = False) -> str:
    """Return the report of a study as a complete HTML page.

    Style and figures are inside it. It needs no script and loads nothing.

    Parameters
    ----------
    paper
        Order its sections as a paper does: how it was found before what was found.
    """
    return _page("report.html.jinja", study_view(study), paper=paper)


def render_series_html(result: RunsOverTime) -> str:
    """Return a result over time as a complete HTML page, as `render_html` does a study."""
    options = {"--seed": result.provenance.seed, "--seeds": _several(len(result.seeds))}
    question = asked("simulate", result.scenario, options=options)
    return _page("series.html.jinja", series_view(result, question), narrow=True)


def render_plan_html(answer: PlanAnswer) -> str:
    """Return a capacity plan as a complete HTML page, likewise."""
    question = asked("plan", answer.scenario, options={"--seed": answer.provenance.seed})
    return _page("plan.html.jinja", plan_view(answer, question), narrow=True)


def render_answer_html(answer: Answer, question: Asked | None = None) -> str:
    """Return an answer as a complete HTML page.

    Parameters
    ----------
    question
        What a verb was asked about nodes, whose answers don't hold their scenario as it was given;
        the others do.
    """
    if isinstance(answer, Study):
        return render_html(answer)
    if isinstance(answer, RunsOverTime):
        return render_series_html(answer)
    if isinstance(answer, PlanAnswer):
        return render_plan_html(answer)
    assert question is not None
    if isinstance(answer, Recommended):
        return _page("report.html.jinja", recommended_view(answer, question))
    if isinstance(answer, Simulated):
        view = simulated_view(answer, question)
    elif isinstance(answer, Explained):
        view = explained_view(answer, question)
    else:
        view = compared_view(answer, question)
    return _page("node.html.jinja", view, narrow=True)


def _several(number: int) -> int | None:
    return number if number > 1 else None


def _page(template: str, view: dict[str, Any], *, narrow: bool = False, paper: bool = False) -> str:
    # Our own style sheet, not user text; escaping would break its quotes.
    css = Markup(_template_text("report.css"))
    made = _environment().get_template(template)
    return made.render(**view, css=css, narrow=narrow, paper=paper)
