"""Writes docs/accuracy/seeds.json and docs/seeds.md: `python -m forecache.calibration.seeds`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from forecache.hwprofiles.files import write_text_atomic

from .page import page
from .table import validate_seeds


def main() -> int:
    """Predict, judge and write; exit code 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="where they are written")
    docs = parser.parse_args().docs
    text = json.dumps(validate_seeds(lambda line: print(line, file=sys.stderr)), indent=1) + "\n"
    write_text_atomic(docs / "accuracy" / "seeds.json", text)
    write_text_atomic(docs / "seeds.md", page(json.loads(text)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
