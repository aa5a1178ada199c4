"""What a cache costs: serverless by use, nodes by the hour, and where one overtakes the other.

`prices.py`  price tables: dated data with a source for every price, in `tables/`
`ecpu.py`    requests as ElastiCache processing units, the unit serverless caches are billed in
`beside.py`  what nodes cost beside their price: old versions, backups, traffic between zones
`bill.py`    bills of a month, and the load at which serverless and nodes cost the same
`answer.py`  a scenario of `kind: cost` and the verb `cost`
"""
