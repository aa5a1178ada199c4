"""What to do: recommended threads, limits, objectives, what to measure next."""
