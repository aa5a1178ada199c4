"""forecache predicts how an in-memory key-value engine scales on given hardware.

The rooms `sim`, `hwprofiles`, `models`, `calibration` and `reports` stand beside this folder in a
checkout and inside it once installed. In a checkout `__path__` is extended by the folder that
holds them, so that `import forecache.sim` means the same in both.
"""

from pathlib import Path

_parent = Path(__file__).resolve().parent.parent
if not (Path(__file__).resolve().parent / "sim").is_dir() and (_parent / "sim").is_dir():
    __path__.append(str(_parent))

__version__ = "0.1.0"
