"""The core process: every routing decision, no sockets."""
