"""What a cache costs: serverless by use, nodes by the hour, and where one overtakes the other.

`schema.py`  a scenario of `kind: cost`
`sizing.py`  how many nodes hold the data and serve the peak, by rules
`bill.py`    bills of a month, and the load at which serverless and nodes cost the same
`answer.py`  the verb `cost`
"""
