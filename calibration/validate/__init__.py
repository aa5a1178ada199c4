"""Predicts published measurements and compares."""
