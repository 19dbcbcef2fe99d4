"""Native code of the workers as Python functions: compiled when a test asks for it."""
