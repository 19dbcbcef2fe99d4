"""Executable specifications: what a worker, a message or a whole network must do, in plain Python."""
