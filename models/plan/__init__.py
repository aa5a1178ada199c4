"""Capacity plans: which machines, how many shards, which engine with how many threads.

A scenario of `kind: plan` says what is demanded, what must hold and what may be chosen; the verb
`plan` answers with ranked plans, whether today's stays, and why each obvious alternative was turned
down.

| module         | what it knows                                                               |
|----------------|-----------------------------------------------------------------------------|
| `schema.py`    | the scenario                                                                |
| `offers.py`    | which machines with which engine may be chosen, and what they cost          |
| `price.py`     | what a node costs, in each way in which it may be paid                      |
| `bill.py`      | what a plan costs beside its nodes: backups, old versions, traffic          |
| `shard.py`     | the node that one shard of a plan is, its memory, what a failure leaves     |
| `bounds.py`    | how many shards are needed at least, without simulating anything            |
| `trials.py`    | whether a number of shards holds, by simulation: few draws or all of them   |
| `chances.py`   | how probable that is, how many draws tell it, and what makes draws miss     |
| `race.py`      | the fewest shards of an offer that hold, and with how many threads          |
| `search.py`    | best first: the offers whose bound is cheapest are raced, the cheapest are  |
|                | simulated in full, and no offer whose bound is dearer than these            |
| `ranking.py`   | which of the plans comes first, and which ones nothing tells apart          |
| `forecast.py` | when growth reaches which limit, what a lost node or zone leaves            |
| `rejected.py`   | why alternatives were turned down                                           |
| `front.py`     | cost against headroom                                                       |
| `serverless.py`| the bill of a serverless cache for the same demand                          |
| `data_tiering.py` | nodes that keep values on an SSD, for the same demand                   |
| `one_node.py`  | `recommend` over lists of hosts and versions: a plan of one node            |
| `ceiling.py`   | the highest load with which a node of today meets the objective             |
| `results.py`   | what an answer consists of; `answer.py` puts it together                    |
"""
