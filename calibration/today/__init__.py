"""What runs today, as its nodes, its keys, its bill and its metrics tell, as a plan's demand.

| module            | what it knows                                                              |
|-------------------|----------------------------------------------------------------------------|
| `nodes.py`        | files of nodes, one INFO, what each node did between two looks, and what   |
|                   | of that no operation stands for                                            |
| `commands.py`     | which operations of a plan the commands of an engine are                   |
| `sizes.py`        | sizes of keys and values from traffic and from memory                      |
| `data.py`         | which files are given; keys by type, their sizes and what lies in memory   |
| `findings.py`     | latencies, hot slots, slow log, settings, the memory doctor                |
| `demand.py`       | all of it together: the demand, how each field is known, what is not known |
| `export.py`       | an export of a bill: CSV, its columns, checked lines                       |
| `charges.py`      | to which cache and kind of charge a line belongs, or why to none           |
| `billed.py`       | caches, what runs in them, what a month costs, what has no place           |
| `metrics.py`      | CloudWatch metrics of nodes over time                                      |
| `load.py`         | the demand that metrics tell                                               |
| `answer.py`       | all of these with a plan, beside today's bill, and how far the nodes go    |
"""
