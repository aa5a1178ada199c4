"""How long each step of a request takes: work of the engine times speed of the host."""
