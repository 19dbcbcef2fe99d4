"""The directories that the pipeline writes: whose they are, and how results appear in them as a whole."""
