"""The report as one self-contained HTML file: no script, no request, figures inline.

`view.py` turns a study into plain strings and figures; the template lays them out. Jinja2 escapes
every string; only the figures, which this package draws, pass through as markup.
"""

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, select_autoescape
from markupsafe import Markup

from .shapes import Json
from .view import study_view


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment


def _template_text(name: str) -> str:
    return files("forecache.reports").joinpath("templates", name).read_text(encoding="utf-8")


def render_html(study: Json) -> str:
    """Return the report of a study as a complete HTML page.

    Parameters
    ----------
    study
        The dict that `forecache study` builds; `shapes.py` gives its shape. Missing or null parts
        are left out of the page.

    Returns
    -------
    str
        The page, with style and figures inside it. It needs no script and loads nothing.
    """
    context: dict[str, Any] = dict(study_view(study))
    # Our own style sheet, not user text; escaping would break its quotes.
    context["css"] = Markup(_template_text("report.css"))
    return _environment().from_string(_template_text("report.html.jinja")).render(context)
