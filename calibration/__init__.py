"""Observe a real engine, fit its work, quantify uncertainty, validate predictions."""
