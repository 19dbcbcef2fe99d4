"""Connections and frames of RMR applications."""
