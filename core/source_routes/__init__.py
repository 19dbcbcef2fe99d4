"""What the core knows of route workers."""
