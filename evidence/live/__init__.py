"""Real engines measured on this machine, and predicted."""
