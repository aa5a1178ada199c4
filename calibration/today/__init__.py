"""What runs today, as its nodes tell: texts of INFO and its kin turned into a plan's demand.

| module         | what it knows                                                              |
|----------------|----------------------------------------------------------------------------|
| `replies.py`   | a file of a node: which commands were asked, and their replies             |
| `look.py`      | one INFO: checked numbers, commands, keys                                  |
| `nodes.py`     | the nodes behind the files, and what each did between two looks            |
| `commands.py`  | which operations of a plan the commands of an engine are                   |
| `sizes.py`     | sizes of keys and values from traffic and from memory                      |
| `demand.py`    | all of it together: the demand, how each field is known, what is not known |
"""
