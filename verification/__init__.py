"""Long checks of the foundations against results known without simulation.

`python -m verification` runs them all; the tests in `tests/` are the quick ones.
"""
