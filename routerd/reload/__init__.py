"""Changes of a running router's configuration: by reload of its file and by management."""
