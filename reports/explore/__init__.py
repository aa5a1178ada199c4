"""A local page with controls for a scenario and figures that follow them.

`controls.py` says what can be moved, `job.py` answers one state of the controls in a process of its
own, `processes.py` starts and ends such processes, `answer.py` gathers what they say, `plots.py`
and `view.py` turn it into figures and rows, and `server.py` serves them on loopback.
"""
