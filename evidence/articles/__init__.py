"""Every claim of five articles in one table, against what the models say.

    forecache validate articles

`claims.yaml` has the claims, `table.py` reads and judges them, `predictors.py` makes the
predictions, `page.py` the page. A claim has a role: arithmetic is recomputed from its inputs, a
prediction is made by a model that hasn't seen it, a calibration is an input of one, context is
there to be read.
"""
