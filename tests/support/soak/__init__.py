"""Hours of everything at once in a network of three routers: nothing may be lost, nothing may grow."""
