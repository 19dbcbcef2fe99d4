"""Changes of a running router's configuration."""
