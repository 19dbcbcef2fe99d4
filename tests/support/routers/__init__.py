"""Routers as users run them, alone and in networks."""
