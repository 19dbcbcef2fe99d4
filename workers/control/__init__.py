"""Connections, attaches and detaches of a worker: what is not per message."""
