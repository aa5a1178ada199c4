"""How a capture times wake-ups: how long it lets the thread sleep before it sends the message.

Whoever reads the curve of wake-ups has to know. On a Zen 5 virtual machine the share that took more
than a millisecond was 0.03% after 35 us of sleep, 0.05% after 95, 0.09% after 215, 0.11% after 455
and 0.19% after 975 (15,000 to 185,000 messages each, by `sleeper_samples` of `capture/sockets.py`
with a `pause_us` of 60 to 1000, in turn): the longer a core idles, the likelier the hypervisor has
given it to another machine.
"""

SHORTEST_PAUSE_US, LONGEST_PAUSE_US = 60.0, 1000.0
_LATENCIES = 3.0


def pause_us(wake_latency_us: float) -> float:
    """Time between two messages: long enough for the thread to fall asleep after each, and short
    enough that idle states and caches are those of a busy host."""
    return min(LONGEST_PAUSE_US, max(SHORTEST_PAUSE_US, _LATENCIES * wake_latency_us))


def asleep_us(wake_latency_us: float) -> float:
    """Time for which the thread has slept when the next message is sent."""
    return max(0.0, pause_us(wake_latency_us) - wake_latency_us)
