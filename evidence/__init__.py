"""How accurate this project is: studies, what they measured, and the pages that say so.

    python -m evidence             # list the studies; `make evidence` does the same
    python -m evidence footprint   # measure, keep what was found, write its page
    python -m evidence --pages     # write all pages from what was found before

`studies.py` declares every study, `harness.py` runs them in three steps: measure, artefact, page.
`counts/` counts and fits the work of shipped engines, `live/` runs engines on this machine,
`accuracy/` predicts published measurements and writes the accuracy pages with `figures/`,
`validation/` predicts those that are no loads on a node, `joint/` fits hosts and engines to all
calibration points together, `articles/` and `serverless/` judge what vendors wrote, `overcommit/`
compares fleets, `documents/` writes pages of docs/ from code, `calculator/` a page that answers
without a server. `size.py` says how large the program
is. Nothing of this is installed.
"""
