"""An upgrade of a cluster's nodes: which steps it has, how long each lasts, what is left meanwhile."""
