"""The reports, each as one self-contained HTML file: no script, no request, figures inline.

`study_view.py` turns a study into plain strings and figures, `series_view.py` a result over time,
`plan_view.py` a capacity plan; a template lays them out. Jinja2 escapes
every string; only the figures, which this package draws, pass through as markup.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from forecache.models.plan.results import PlanAnswer
from forecache.models.results.series import RunsOverTime

from ..study_answer import Study
from .plan_view import plan_view
from .series_view import series_view
from .study_view import study_view

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


def render_html(study: Study) -> str:
    """Return the report of a study as a complete HTML page.

    Style and figures are inside it. It needs no script and loads nothing.
    """
    return _page("report.html.jinja", study_view(study))


def render_series_html(result: RunsOverTime) -> str:
    """Return a result over time as a complete HTML page, as `render_html` does a study."""
    return _page("series.html.jinja", series_view(result))


def render_plan_html(answer: PlanAnswer) -> str:
    """Return a capacity plan as a complete HTML page, likewise."""
    return _page("plan.html.jinja", plan_view(answer))


def _page(template: str, view: dict[str, Any]) -> str:
    # Our own style sheet, not user text; escaping would break its quotes.
    css = Markup(_template_text("report.css"))
    return _environment().get_template(template).render(**view, css=css)
