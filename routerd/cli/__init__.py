"""Commands that show or change a running router, or examine its files."""
