"""Predicts and judges every claim of the articles, writes the artefact and its page.

    python -m evidence.articles

`forecache validate articles` prints the artefact, which comes with the package.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from forecache.hwprofiles.files import write_text_atomic

from .page import page
from .table import judged

ARTEFACT = Path("calibration/validate/articles.json")
PAGE = Path("docs/articles.md")


def main() -> int:
    """Predict, judge and write; exit code 0."""
    text = json.dumps(judged(lambda line: print(line, file=sys.stderr)), indent=1) + "\n"
    write_text_atomic(ARTEFACT, text)
    write_text_atomic(PAGE, page(json.loads(text)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
