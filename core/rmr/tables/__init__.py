"""Route tables and MEID maps as values and as text: grammar, checks, lookup."""
