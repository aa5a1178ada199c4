"""The claims of the articles the project began with, as they were judged.

To predict them all takes minutes and needs more than a user's machine has installed. They are
judged with every release (`make evidence STUDY=articles`), and the result comes with the package.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def judged_claims() -> dict[str, Any]:
    """Every claim with its prediction.

    Returns
    -------
    dict
        `rows`: each with the claim's fields, `predicted`, `error` (relative), `verdict` and the
        `command` that shows how the prediction comes about; `summary`: how many rows of each role
        have each verdict; `articles`: where the claims come from.
    """
    text = files(__package__).joinpath("articles.json").read_text(encoding="utf-8")
    result: dict[str, Any] = json.loads(text)
    return result
