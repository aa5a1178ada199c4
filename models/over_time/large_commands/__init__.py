"""Commands that read or write millions of members: how long they take, and how long others wait.

`scenario.py` has the fields; `work.py` an engine's instructions per member, counted, and the lines
it waits for; `commands.py` turns both into time on a host and adds network and client;
`simulate.py` puts the commands one after the other, with the latency of other clients, and says how
far off that may be.
"""
