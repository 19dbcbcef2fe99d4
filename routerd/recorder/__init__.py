"""The recorder writes the flow log's files in a process of its own; no other process waits for it."""
