"""Measuring the host at hand with compiled micro-benchmarks.

`capture_host` gives a profile like those of the catalogue, with all repetitions in its `raw`.
"""

from .host import capture_host
from .machine import Machine, inspect_machine

__all__ = ["Machine", "capture_host", "inspect_machine"]
