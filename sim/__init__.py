"""Discrete-event foundations: calendar, random streams, statistics. Knows no engine."""
