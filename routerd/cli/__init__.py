"""The commands that look at a running router or change it."""
