"""Words and numbers that terminal, page, notebook and figures share.

| of                    | modules                                                                  |
|-----------------------|--------------------------------------------------------------------------|
| anything              | `formats.py` (numbers whose unit is known), `quantities.py` (whose unit  |
|                       | is only known by its name), `settings.py` (swept fields, engines),       |
|                       | `repeat.py` (how to ask again)                                           |
| a node                | `points.py`, `wording.py` (a recommendation), `thread_plan.py`,          |
|                       | `explained.py` (with what moves it), `differences.py` (of two)           |
| a study, a calibration| `method.py`, `accuracy.py`                                               |
| what runs over time   | `runs.py`                                                                |
| a capacity plan       | `plans.py`, `bills.py`, `today.py`, `prometheus.py`                      |
"""
