"""A serverless cache: shards behind proxies, which grow by themselves when asked for more.

The shards are a `cluster/`: its queues, slot map and slot migration. What comes on top of it:

1. **Proxies** (`scaling.py`, `run.py`) stand between clients and shards, in every zone. A request
   goes to a proxy in any zone and on to a primary in any zone, which is most of its latency. They
   have a capacity of their own, a limit of connections, and see to request limits.
2. **Scaling** (`scaling.py`). A look every `detect_s` finds shards that are busier than
   `scale_above`. They get cores (and I/O threads with them) in place, up to the last entry of
   `io_threads`; behind that the cache scales out: new shards come from a warm pool in
   `provision_s`, slots move to them, by main threads key by key or by threads of their own, and all
   that time the load goes on. Speed of growth is what these steps take, no number of its own.
3. **Data** (`Filling` of `../caching.py`): keys that were written are there, others miss; above the
   largest storage the least recently used ones go, or writes fail.
4. **Bill** (`run.py`): ECPU and GB-hours as they accrue, at the prices of `models/cost`.

`versions/` has the mechanisms of each version of the service as numbers with origins, which a
scenario (`schema.py`) may change. `run.py` puts it together, a process of SimPy for what each of
them does beside the load, and answers with a `Run`.
"""
