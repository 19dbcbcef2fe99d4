"""The exporter serves metrics, health checks and the live page over HTTP; it only reads shared memory."""
