"""Discrete-event foundations: calendar, rings, random streams, statistics. Knows no engine."""
