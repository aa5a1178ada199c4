"""Which shard has which slots, how they move, and how clients learn of it."""
