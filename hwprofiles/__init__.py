"""Catalogue of hosts and cloud instances, its schema, and capture of the host at hand."""
