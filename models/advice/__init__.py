"""What to do: recommended threads and their CPUs, limits, objectives, what matters."""
