"""Which inputs move an answer: Sobol indices of uncertain numbers and of what a user can choose.

`design.py` says at which inputs to run, `indices.py` what follows from the runs, both of any
function. `numbers.py` and `choices.py` are the inputs of a node, `surrogate.py` stands in for a
simulation that takes too long, and `answer.py` puts them together into the types of `results.py`.
"""
