"""A fleet of virtual machines on hosts that promise more memory than they have.

Every machine is given a nominal size, its host's whole memory say, but takes only what it touches.
Physical memory is accounted per host. What a machine wants changes all the time; what it has
follows in units, upward through a token bucket, downward as its pages are given back. A host on
which too much is taken is *hot*: one of its machines is moved to another host by pre-copy live
migration. When that doesn't help in time, machines have to wait, swap, or be killed.

Two clocks, as in `cluster`: memory advances for all machines at once in steps of `step_s` (NumPy,
one element per machine); migrations, failures and the fleet manager are SimPy processes between
steps.

`schema.py`     what a scenario of `kind: overcommit` says
`demand.py`     what machines want: seasons, noise, bursts, tenants in common, or what was recorded
`fleet.py`      `Fleet`: who has what where; growth, give-back, exhaustion: one step
`precopy.py`    one live migration: pages that writes make dirty, rounds, blackout, or failure to
                converge
`manager.py`    the fleet manager: looks at heat, starts migrations, places new machines
`run.py`        a scenario as a `Run`, with what the hosts cost and hosts as stacked bars

Common random numbers: what is drawn is addressed by machine and time, never by order, so that two
policies meet the same demand.
"""
