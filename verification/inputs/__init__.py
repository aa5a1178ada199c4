"""Damaged files: readers by themselves, and whole commands."""
