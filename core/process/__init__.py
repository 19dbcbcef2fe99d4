"""The core as a process: its parts, recovery, what it shows."""
