"""Sweeps of any number of points: answers go to Parquet files as they come, and can be resumed."""
