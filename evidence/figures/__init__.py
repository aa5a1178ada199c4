"""Figures of the accuracy page."""
