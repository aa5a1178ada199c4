"""What a cache costs: serverless by use, nodes by the hour, and where one overtakes the other.

`prices.py`  price tables: dated data with a source for every price, in `tables/`
`beside.py`  what nodes cost beside their price: old versions, backups, traffic between zones
`bill.py`    bills of a month, and the load at which serverless and nodes cost the same
`answer.py`  a scenario of `kind: cost` and the verb `cost`
"""
