"""Starts an engine on loopback, fills it, and drives it with load."""
