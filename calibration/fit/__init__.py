"""Fits the work of an engine to a bundle, and says how well that explains it.

`calibrate.py` does it all and answers with `report.py`. What it asks for, in this order:

| step                   | modules                                                                 |
|------------------------|-------------------------------------------------------------------------|
| before                 | `prior.py` (what is known, and whether observations disagree with it)   |
| the work of one thread | `fit.py` by `regression.py` on `work_model.py`; `command_work.py` for   |
|                        | commands beyond GET and SET                                             |
| latency, more threads  | `simulated_fit.py`, with the simulation in the loop                     |
| how good it is         | `calibrate.py`: every point predicted, the model's own error, profilers |
| what it can't tell     | `identifiability.py`, and what would tell more                          |
"""
