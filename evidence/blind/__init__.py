"""Blind rounds: predictions are committed before measurements are opened, and scored once.

`python -m evidence.blind` has a command for each step; docs/evidence.md says how a round goes.
"""
