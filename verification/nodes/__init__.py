"""Simulated nodes against closed forms, themselves, each other and further simulation."""
