"""Every claim of five articles in one table, against what the models say.

`claims.yaml` has the claims, `table.py` reads and judges them, `predictors.py` makes the
predictions, `articles.json` has them as they were judged last, `page.py` makes a page of that. A
claim has a role: arithmetic is recomputed from its inputs, a prediction is made by a model that
hasn't seen it, a calibration is an input of one, context is there to be read.
"""
