"""Words and numbers that documents and figures share.

`formats.py` writes numbers with their units, `settings.py` swept fields and engines, `points.py`
says what is known of points of a node, `runs.py` what happens over time, and `repeat.py` how to
ask again.
"""
