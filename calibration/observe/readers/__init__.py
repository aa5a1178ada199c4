"""Readers of what profilers, benchmarks and engines print, one module per format."""
