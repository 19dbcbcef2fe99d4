"""The log of all processes."""
