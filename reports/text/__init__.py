"""Words and numbers that terminal, page, notebook and figures share.

| of                    | modules                                                                  |
|-----------------------|--------------------------------------------------------------------------|
| anything              | `formats.py` (numbers whose unit is known), `quantities.py` and          |
|                       | `estimates.py` (whose unit is only known by its name), `settings.py`     |
|                       | (swept fields), `engines.py` (names), `repeat.py` (how to ask again)     |
| a node                | `points.py`, `wording.py` (a recommendation), `thread_plan.py`,          |
|                       | `explained.py`, `sensitivity.py`, `differences.py` (of two)              |
| a study, a calibration| `method.py`, `accuracy.py`, `claims.py` (of articles)                    |
| what runs over time   | `runs.py`, `over_seeds.py`, `stacks.py`                                  |
| a capacity plan       | `plans.py`, `bills.py`, `compression.py`, `today.py`, `prometheus.py`    |
"""
