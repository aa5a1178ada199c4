"""Real engines measured on this machine, and predicted.

| study                  | modules                                                                 |
|------------------------|-------------------------------------------------------------------------|
| engines at random      | `generations.py`, `memaslap.py`, `threads.py`, `tails.py`;              |
| points                 | `rounds.py` is what they share, `generations_page.py` their page        |
| neighbours at once     | `steps.py`, on windows of `cpu_windows.py`; `upgrades.py` is the same   |
|                        | of old versions                                                         |
| keys in order, MGETs   | `key_order.py` and `mget.py`, on windows of `cpu_windows.py`            |
| a node's ceiling       | `ceiling.py`                                                            |
| looks at INFO          | `looks.py`, `looks_of_others.py`                                        |
| threads that share     | `crowded.py`, `quotas.py`                                               |
| cores                  |                                                                         |
| memory                 | `footprint_check.py`, with `footprint_load.py`                          |
| large commands         | `large_commands_check.py`, `large_commands_page.py`                     |
| slots that move, full  | `migration_check.py` and `sync_check.py` on what `migration_live.py`    |
| syncs                  | and `sync_live.py` measure; `trials.py` is what they share              |
| caches of several nodes| `memcached_check.py`                                                    |
| nodes that fail        | `failover_check.py`                                                     |

`engines.py` unpacks engines to measure, `load.py` puts load on one.
"""
