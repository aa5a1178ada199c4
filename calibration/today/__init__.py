"""What runs today, as its nodes, its keys, its bill and its metrics tell, as a plan's demand.

| module            | what it knows                                                              |
|-------------------|----------------------------------------------------------------------------|
| `files.py`        | which files are of nodes, which are RDB files, which have `--bigkeys`      |
| `replies.py`      | a file of a node: which commands were asked, and their replies             |
| `look.py`         | one INFO: checked numbers, commands, latencies, keys                       |
| `nodes.py`        | the nodes behind the files, and what each did between two looks            |
| `commands.py`     | which operations of a plan the commands of an engine are                   |
| `not_modelled.py` | execution time that no operation stands for, and what to give besides      |
| `sizes.py`        | sizes of keys and values from traffic and from memory                      |
| `data.py`         | keys by type, their sizes and what lies in memory                          |
| `findings.py`     | latencies, hot slots, slow log, settings, the memory doctor                |
| `settings.py`     | threads, encryption, what is kept on disk                                  |
| `demand.py`       | all of it together: the demand, how each field is known, what is not known |
| `notes.py`        | the sentences that gather on the way                                       |
| `export.py`       | an export of a bill: CSV, its columns, checked lines                       |
| `charges.py`      | to which cache and kind of charge a line belongs, or why to none           |
| `billed.py`       | caches, what runs in them, what a month costs, what has no place           |
| `metrics.py`      | CloudWatch metrics of nodes over time                                      |
| `load.py`         | the demand that metrics tell                                               |
| `compared.py`     | today's bill against that of the best plan                                 |
| `answer.py`       | all of these with a plan, and the ceiling of today's nodes                 |
"""
