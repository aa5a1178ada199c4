"""What a user asks: the fields of a scenario file, arrivals, workload, sweeps."""
