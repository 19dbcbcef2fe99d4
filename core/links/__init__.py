"""Links and connections: which attaches are accepted, and where they lead."""
