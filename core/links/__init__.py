"""Links and connections: which attaches the core accepts, and where they lead."""
