"""A cache beside a database: clients look a key up in the cache and, if it isn't there, fetch it.

Clients alone decide which node a key belongs to (`hashing.py`), from a list of nodes that an
operator edits. So when the list changes, clients look for keys where they have never been; when a
node restarts, it is empty. In both cases clients ask the database for what is missing.

    request ─▶ node of its key ─▶ hit
                              └─▶ miss ─▶ database ─▶ answer, and the key is stored in the cache
                              └─▶ no answer (the node is down)

`contents.py`  which keys the nodes hold, by popularity, and what they evict
`database.py`  the database: a queue that misses overload
`tier.py`      both, step by step, and the law that no request is lost

Counts are expected values, no integers: popularity classes and groups of keys with the same owners
are large. `models/over_time/cluster` brings the nodes' own capacity, clients and time-outs to it.
"""
