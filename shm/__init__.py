"""The shared-memory contract between a router's processes."""
