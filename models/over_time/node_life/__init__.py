"""The life of a node over minutes to days: `run.py`."""
