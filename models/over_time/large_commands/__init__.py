"""Commands that read or write millions of members: what they take and what others feel meanwhile.

`work` is what an engine does per member, counted; `touches` the lines it waits for; `cost` makes
time of both on a host; `transfer` adds network and client; `waiting` is what other clients feel;
`scenario` says what to run, `timeline` puts its commands one after the other, and `simulate` makes
a run of that.
"""
