"""Which inputs move an answer: Sobol indices of uncertain numbers and of what a user can choose.

`indices.py` says at which inputs to run and what follows from the runs, of any function.
`numbers.py` and `choices.py` are the inputs of a node, `evaluation.py` runs it, or what stands in
for a simulation that takes too long, and `answer.py` puts them together into the types of
`results.py`.
"""
