"""Clients of a router: engines driven by hand, frames written by hand, and what others ship."""
