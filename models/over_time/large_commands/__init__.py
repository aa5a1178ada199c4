"""Commands that read or write millions of members: how long they take, and how long others wait.

`work` has an engine's instructions per member, counted; `touches` the lines it waits for;
`main_thread` turns both into time on a host; `transfer` adds network and client; `waiting` gives
the latency of other clients. `scenario` has the fields, `timeline` puts the commands one after the
other, `intervals` says how far off that may be, and `simulate` makes a `Run` of it.
"""
