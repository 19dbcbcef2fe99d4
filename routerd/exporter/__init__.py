"""The exporter: metrics, health and a live page over HTTP, in a process of its own that only reads."""
