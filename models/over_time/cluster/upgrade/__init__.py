"""An upgrade of a cluster's nodes: its steps, how long each lasts, what is left meanwhile."""
