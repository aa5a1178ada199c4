"""The node as SimPy processes, the specification of behaviour. Read `node.py` first.

| file                | what it has                                                            |
|---------------------|------------------------------------------------------------------------|
| `node.py`           | the life of a request: clients, event loop, steps, load generator      |
| `network.py`        | what delays a message between two hosts                                |
| `arrivals.py`       | when requests fall due in an open loop                                 |
| `threads.py`        | sleep, wake-ups, interruptions, shared physical cores, measured window |
| `scheduler.py`      | threads that share cores, and CPU quotas                               |
| `io_threads.py`     | what the next three policies have in common                            |
| `fork_join.py`      | the main thread waits for its I/O threads: Redis 6 and 7, Valkey 7.2   |
| `asynchronous.py`   | it does not, a job ring for each: Valkey 8.0 to 9.0                    |
| `shared_queues.py`  | the same with one job queue: Valkey 9.1                                |
| `owning_threads.py` | I/O threads with clients of their own: Redis 8                         |
| `multiplexed.py`    | the same, handing over in batches: ElastiCache                         |
| `locked_threads.py` | threads that execute by themselves, under locks: Memcached             |
| `trace.py`          | the same run with a record of every step and every request             |
"""

from .node import ReferenceNode, run_node, run_reference

__all__ = ["ReferenceNode", "run_node", "run_reference"]
