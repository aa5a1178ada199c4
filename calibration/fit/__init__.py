"""Fits the work of an engine to a bundle, and says how well that explains it."""
