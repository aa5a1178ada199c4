"""What runs today, as its nodes, its keys, its bill and its metrics tell, as a plan's demand.

| module          | what it knows                                                                |
|-----------------|------------------------------------------------------------------------------|
| `nodes.py`      | files of nodes, one INFO, what each node did between two looks, and what of  |
|                 | that no operation stands for                                                 |
| `prometheus.py` | metrics of exporters, as looks at INFO                                       |
| `commands.py`   | which operations of a plan the commands of an engine are                     |
| `rdb.py`        | the keys of an RDB file: types, counts and sizes, no values                  |
| `keys.py`       | keys that are alike, as populations of a memory footprint                    |
| `data.py`       | which files are given; keys by type, their sizes and what lies in memory     |
| `findings.py`   | latencies, hot slots, slow log, settings, troubles                           |
| `demand.py`     | all of it together: the demand, how each field is known, what is not known   |
| `bill.py`       | an export of a bill: its lines, where each belongs, what a month costs       |
| `metrics.py`    | CloudWatch metrics of nodes over time, and the demand that they tell         |
| `answer.py`     | all of these with a plan, beside today's bill, and how far the nodes go      |
"""
