"""What keys a cache holds, as its files and tools tell: types, counts and sizes, no values.

| module         | what it knows                                                             |
|----------------|---------------------------------------------------------------------------|
| `cursor.py`    | lengths and strings of an RDB file, one after the other                   |
| `values.py`    | the keys' values: how many elements each has, and how long these are      |
| `rdb.py`       | an RDB file from its magic word to its end                                |
| `groups.py`    | keys that are alike, and populations of a memory footprint made of them   |
| `big_keys.py`  | what `--bigkeys` and `--memkeys` print                                    |
"""
