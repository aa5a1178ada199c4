"""Fits the work of an engine to a bundle, and says how well that explains it.

`calibrate.py` does it all and answers with `report.py`. What it asks for, in this order:

| step                  | modules                                                                  |
|-----------------------|--------------------------------------------------------------------------|
| before                | `prior.py` (what is known), `known.py`, `conflict.py` (with observations)|
| the work of one thread| `fit.py` by `regression.py` on `work_model.py`, with counted             |
|                       | `instructions.py`; `generator_fit.py` for the load generator             |
| of several threads    | `thread_fit.py` on `thread_times.py`                                     |
| latency               | `latency_fit.py`, by simulation of `scenarios.py`                        |
| how good it is        | `simulated.py` (every point predicted), `discrepancy.py`, `variation.py`,|
|                       | `stage_check.py` (against profilers)                                     |
| what it can't tell    | `identifiability.py`, `candidates.py` (what would tell more)             |
"""
