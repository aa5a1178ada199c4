"""How each engine version lays out data: which blocks it allocates, and how large they are.

| module           | what it knows                                                            |
|------------------|--------------------------------------------------------------------------|
| `allocator.py`   | size classes of jemalloc, as bundled and as distributions build it; libc |
| `tables.py`      | buckets of dict and hashtable, a table for each slot, both while moving  |
| `generations.py` | what each version does: a row of rules and constants                     |
| `blocks.py`      | blocks of strings, keys and collections, packed while small or not       |
| `slabs.py`       | Memcached's slab classes                                                 |
"""
