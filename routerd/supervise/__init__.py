"""The supervisor: child processes from birth to death."""
