"""Uncertain numbers of catalogue hosts and engines, fitted together to all calibration points."""
