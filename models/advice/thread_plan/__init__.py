"""Which CPUs each thread, child, interrupt and neighbour of a server gets, and what that gains.

`placement.py` lays them out, `lines.py` writes the lines that make it so, `gains.py` simulates
the plan against leaving all threads to the kernel, and `plan.py` puts the three together.
"""
