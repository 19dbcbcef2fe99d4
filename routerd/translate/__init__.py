"""Translates the configuration into the set-ups of processes."""
