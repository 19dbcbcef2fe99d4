"""The active tables of a running router: where they come from, their snapshots and their endpoints."""
