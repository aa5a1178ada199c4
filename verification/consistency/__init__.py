"""Random valid scenarios of every kind, and what must hold of their answers.

`draws` and `scenarios` make scenarios, one for every number of a seed. `node`, `over_time` and
`bills` ask the program about one and list what contradicts itself. `run` does it for many, on all
cores, and prints each contradiction with the scenario that shows it.
"""

from .run import CHECKS, COUNT, KINDS, SEED, consistency

__all__ = ["CHECKS", "COUNT", "KINDS", "SEED", "consistency"]
