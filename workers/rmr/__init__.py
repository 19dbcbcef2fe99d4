"""RMR applications: their frames, their connections."""
