"""What two servers that others measured can do, predicted from looks at INFO under a light load.

Redis 6.2.11 with one thread and 40 connections on a Xeon 6 guest of two CPUs, the load generator on
the other one; others measured what each serves in saturation. Predicted with the catalogue's
nearest host, and with the profile of that guest, taken within the hour beside other work.
"""

from __future__ import annotations

import json
from pathlib import Path

from forecache.sim.errors import InputError

from ..counts.shipped import json_text
from ..harness import Asked, Files
from .looks import FOLDER, Row, from_looks
from .rounds import HOST_FILE

PAIRS = FOLDER / "others"
"""Two looks at each server, what it serves, and the profile of the host."""
ARTEFACT = Path("docs/accuracy/looks-of-others.json")
NEAREST = "r8i.large"
"""What the catalogue has of the host's processor."""


def predict(asked: Asked) -> Files:
    """What was measured, beside what is predicted.

    Raises
    ------
    InputError
        Nothing can be told from a pair of looks.
    """
    rows: list[Row] = []
    for pair in json.loads((PAIRS / "pairs.json").read_text(encoding="utf-8")):
        files = [PAIRS / f"{pair['name']}-{look}.txt" for look in "ab"]
        for host in (NEAREST, str(PAIRS / HOST_FILE)):
            asked.progress(f"{pair['name']}: predicting on {host}")
            found = from_looks(files, host)
            if found is None:
                raise InputError(f"{files[0]}, {files[1]}: needs looks that tell a capacity.")
            kept = {name: found[name] for name in ("capacity_rps", "low_rps", "high_rps")}
            rows.append({**pair, "host": host, **kept})
    return {ARTEFACT: json_text(rows)}
