"""Exchanges: addresses that forward messages to others by subject."""
