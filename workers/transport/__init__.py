"""Sockets, and what lies between them and the engine."""
