"""Capacity plans: which machines, how many shards, which engine with how many threads.

A scenario of `kind: plan` says what is demanded, what must hold and what may be chosen; the verb
`plan` answers with ranked plans, whether the current deployment stays, and why each obvious
alternative was rejected.

| module              | what it knows                                                            |
|---------------------|--------------------------------------------------------------------------|
| `schema.py`         | the scenario                                                             |
| `offers.py`         | which machines with which engine may be chosen, and what a node costs    |
| `compression.py`    | values that clients compress                                             |
| `shard.py`          | the node that one shard is, and how many are needed at least             |
| `bill.py`           | what a plan costs beside its nodes; serverless, and nodes with an SSD    |
| `trials.py`         | whether a number of shards holds, by simulation, and how sure that is    |
| `search.py`         | the cheapest plans that hold, best first, and their order                |
| `forecast.py`       | when growth reaches which limit, what a lost node or zone leaves         |
| `levers.py`         | what most of a bill is, and what would cut it                            |
| `answer.py`         | the verb `plan`: puts the answer together, with rejected alternatives    |
| `one_node.py`       | `recommend` over lists of hosts and versions: a plan of one node         |
| `capacity_limit.py` | the highest load with which a node of today meets the objective          |
| `own_times.py`      | what nodes of today say of their own time, taken into the prediction     |
| `results.py`        | what an answer consists of                                               |
"""
