"""Queues with closed forms, and the statistics of runs: intervals, warm-up, stopping."""
