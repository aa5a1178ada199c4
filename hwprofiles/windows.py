"""How many instructions a core holds that are begun and not finished: its reorder window.

Published by the makers or measured by others (Chips and Cheese; WikiChip), entries of the reorder
buffer. Instructions and micro-operations are taken as one.
"""

_BY_NAME = (
    ("Neoverse V2", 320.0),
    ("Neoverse V1", 256.0),
    ("Neoverse N2", 160.0),
    ("Neoverse N1", 128.0),
    ("Cortex-A72", 128.0),
    ("Granite Rapids", 512.0),
    ("Emerald Rapids", 512.0),
    ("Sapphire Rapids", 512.0),
    ("Ice Lake", 352.0),
    ("Ivy Bridge", 168.0),
    ("Sandy Bridge", 168.0),
    ("Zen 5", 448.0),
    ("Zen 4", 320.0),
)
OTHER_CORES = 256.0
"""Zen 3, and assumed of cores with other names."""


def reorder_window(microarchitecture: str) -> float:
    """Instructions in flight of a core by its name; the first that is part of it counts."""
    found = (window for name, window in _BY_NAME if name in microarchitecture)
    return next(found, OTHER_CORES)
