"""Where the time of a prediction goes: CPU time, latency by station, timeline."""
