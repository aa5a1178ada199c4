"""Results over time, and what must hold of every answer."""
