"""The gate: predictions of committed measurements may not become worse than the last release's.

`recompute.py` predicts every held-out point again, `compare.py` holds the errors of each partition
against those of the artefact in `docs/accuracy/gate.jsonl`, and `history.py` keeps the line of
reason that replacing the artefact takes. `python -m evidence.gate` is what `.ci/run` runs.
"""
