"""From the configuration to what processes are told."""
