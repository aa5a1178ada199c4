"""Observes an engine: what to measure, measuring it, reading the tools that help."""
