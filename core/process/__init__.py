"""The core as a process: its parts, its recovery and its board."""
