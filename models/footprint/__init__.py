"""Memory footprint: `used_memory` of Redis and Valkey by version, type, size, time to live.

The model adds up what the engine allocates, block by block, in the allocator's size classes; it
simulates nothing and takes tens of microseconds.

`weigh(node, data)` gives a `Weight` (parts, states of the tables), `key_weight(node, population)`
one key's share, `keys_that_fit(scenario)` turns the model round, and `memory(source)` is the answer
of `forecache memory`. A `NodeFootprint` is a generation, an allocator and the slots it serves in
cluster mode; `Mixture` weighs any number of keys in the same proportions, of which only the tables
are worked out again.

| module           | what it knows                                                            |
|------------------|--------------------------------------------------------------------------|
| `weigh.py`       | used memory: data, and what a node holds beside them                     |
| `errors.py`      | 95% intervals, from the errors of live servers in `errors.yaml`          |
| `limits.py`      | resident memory, and what a machine leaves to a server                   |
| `node.py`        | what a node of any engine holds, and whether its host has room for it    |
| `schema.py`      | the scenario; `answers.py`: the answer, and how many keys fit            |

The blocks and their sizes are those of `models/layouts/`, which the cache model reads too.
"""
