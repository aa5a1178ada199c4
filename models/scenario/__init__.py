"""What a user asks: kinds of scenario and their reader, fields of a node, workload, sweeps."""
