"""Connections and frames of Ockam nodes."""
