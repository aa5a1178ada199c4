"""A cluster over minutes and hours: nodes under load while things happen to them.

Two clocks meet here. The **load** advances in steps of `step_s`: in each, every node gets a number
of requests and serves as many as its main thread has time for. The **control plane** (autoscaler,
resize, failover, deploy) is made of SimPy processes that wake between steps and change what the
next step sees: which nodes are up, how traffic is spread, how much time of a main thread is taken.
SimPy's clock counts seconds.

One request through a step (`load/`)
------------------------------------
1. *Demand* (`load.py`) says how many requests the users' clients begin in this step. A request is
   what one worker asks of one node in one go: `commands` commands, one after the other.
2. *Clients* (`clients.py`) are pods x workers. `Nodes.traffic` says how requests spread over nodes;
   the draw is Poisson. A request needs a free worker, else it is *turned away*: `Load._admit` lets
   as many begin as the workers can send that do not wait all through the step.
3. A worker that has no connection to the node opens one first: it joins the node's *connection
   queue* (the listen backlog; accept and handshake cost main-thread time). The
   others, and those whose connection was accepted, join the node's *request queue*.
4. Both are FIFO *queues of cohorts* (`cohorts.py`): (step of arrival, attempt number, count).
   They are served from the time the main thread has in this step: its length less what
   background work occupies (`Nodes.occupy`, `Nodes.stall`). How long one request takes is the
   node's *surrogate* (`surrogate.py`), from the node model.
5. A request is *answered*, *timed out* (its client has gone after `timeout_s`; the node does its
   work nevertheless) or *refused* (backlog full, maxclients, node down, connection broken). The
   last two are attempted again after a backoff while attempts and the retry budget last, otherwise
   the request has *failed*.
6. What was answered has the latency that the surrogate has at this utilisation, plus the wait in
   the queue. The *record* (`record.py`) keeps all that as time series.

Counts are integers, and every run checks (`check_conservation` of `load.py`), per node:

    attempts = answered + timed out + refused + waiting
    offered + retries begun = attempts;   timed out + refused = failed + retries begun + backing off
    connections at first + opened = open + closed

Modules
-------
State, none of which knows who acts on it:

`schema.py`        what a scenario of `kind: cluster` says; `events.py` what may happen in it
`surrogate.py`     capacity and latency of one kind of node, from the node model, cached
`nodes.py`         `NodeKind`: what nodes that are alike can do, new connections included;
                   `Nodes`: one row per node (a primary, a replica, a Memcached node)
`load/`            requests (1 to 6 above):
  `cohorts.py`       the queueing block: integers, any number of queues side by side; and one step
                     of the load at every node (3 to 5)
  `native/`          the code in C behind it; `cluster.h` declares what it works on
  `clients.py`       `ClientFleet`: pods, workers, connections, retries; the autoscaler
  `load.py`          its clock, the SimPy process `Load.process`: draws and admits what begins in a
                     step (1 and 2), has it done, and looks at what came of it
`record.py`        series, marks, facts, tables
`slots.py`         keys, slots and shards, the fewest moves; `SlotMap`: those of a run, and the
                   traffic that follows from them
`placement.py`     on which machine and in which zone each node is
`cache.py`         nodes that are a cache: what they hold, the database behind (`../caching.py`)
`cost.py`          what the nodes of a run cost
`cluster.py`       `Cluster`: all of that

What happens to it, as SimPy processes:

`run.py`           what each event does, those of a few lines in full, and `run_cluster`
`moving.py`        slots that move under load; `migration.py` how long that takes, key by key or
                   atomically, and what it costs the main threads of source and target
`replacement.py`   a node is stopped, restarted as what it shall be, synchronised, made primary;
                   `sync.py` has the CPU time of writing, sending and loading its data
`upgrade.py`       nodes get another version: rolling, blue-green or in place
`outage.py`        what nodes that fail do to the rest, until everybody is served again;
                   `failover.py` when they are declared failed, and shards have a primary again
`intervals.py`     how far off times of a run may be, from those of its steps

To add an event
---------------
A pydantic class `Event` in `events.py` (fields `event: Literal["name"]`, `at_s`, and its own), its
place in `KINDS` there; and in `ACTIONS` of `run.py` a function of the event and the cluster, a
generator of SimPy events that is started at `at_s`. What it may use of `cluster: Cluster`:

    cluster.env                               # the clock: yield cluster.env.timeout(3.0), seconds
    cluster.nodes.add(kind, shard=4)          # -> number of a new node; traffic 0 at first
    cluster.nodes.check(event.node)           # raises FieldError unless there is such a node
    cluster.nodes.traffic[node] = 0.2         # share of the requests that go there
    claim = cluster.nodes.occupy(node, 0.3)   # background work takes 30% of its main thread ...
    claim.release()                           # ... until here
    cluster.nodes.stall(node, 0.05)           # its main thread does nothing else for 50 ms
    cluster.nodes.work_factor[node] = 1.2     # requests take longer there (redirections, copies)
    cluster.nodes.set_down(node, silent=True) # silent: no answer; else refused
    cluster.nodes.set_up(node)                # empty, unless with_data=True
    cluster.nodes.become(node, kind)          # it is of another kind; kind from cluster.kind_of
    cluster.nodes.break_connections(node)     # clients find out when they use them next
    cluster.nodes.close_connections(0.1)      # of all nodes, with the pods that had them
    cluster.nodes.data_bytes[node]            # memory of the data there
    cluster.nodes.retire(node)                # it is gone, and no longer billed
    cluster.load.demand_factor = 1.5          # a factor on the scenario's demand from now on
    cluster.clients.pods += 10                # and .workers, .wanted_connections, .timeout_steps
    cluster.clients.held                      # workers that wait for something else than a node
    cluster.slots                             # owners, shares; slots.spread() after a change
    cluster.scenario, cluster.seed            # what was asked for; of whatever is random
    cluster.after_step(function)              # function(step: LoadStep) after every step
    cluster.at_the_end.append(function)       # function() after the last one
    cluster.record.mark("shard 4 has its slots")
    cluster.record.fact("resize finished", 281.0, "s", note="")  # or an Estimate: an interval
    cluster.record.table(title, [("slots", ""), ("lasts", "s")], rows)
    cluster.record.gauge("keys to move", "", "progress", lambda: float)   # sampled at each report

A field that does not fit the others raises `FieldError(field, found=..., valid=...)`
(`forecache.hwprofiles.files`): in a pydantic validator of `Event`, or in its action where only the
run can tell, as `nodes.check` does; its message names the event's place in the file.

A test goes to `tests/models/test_cluster.py` (nodes made up, no node model), `test_shards.py`
(slots) or `test_cluster_cache.py`; it runs a `Cluster` and looks at its `Run` and `nodes.state`.

A queue behind a cluster (a database that misses go to) is a `Queues` of its own, offered and served
in a function given to `after_step`.
"""
