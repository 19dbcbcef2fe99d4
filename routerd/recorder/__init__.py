"""The recorder: the flow log's files, written in a process of its own that nobody waits for."""
