"""Discrete-event foundations: calendar, queues, random streams, statistics. Knows no engine."""
