"""Ockam nodes: their frames, their connections."""
