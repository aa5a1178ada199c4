"""Fleets that promise memory more than once: published migrations, and policies compared."""
