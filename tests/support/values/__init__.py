"""Messages, tables and control messages, written briefly."""
