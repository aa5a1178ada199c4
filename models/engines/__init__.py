"""Engines and load generators: profiles (YAML with origins), and the work of each command."""
