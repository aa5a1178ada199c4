"""Studies: capacity, thread-count recommendation, the report a reader sees."""
