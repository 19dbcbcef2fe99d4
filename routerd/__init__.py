"""The supervisor of a router, its commands, configuration, exporter and recorder."""
