"""Answers in a terminal."""
