"""The shared-memory contract: what the processes of a router know of each other."""
