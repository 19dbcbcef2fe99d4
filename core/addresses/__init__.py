"""Addresses: spellings, keys, patterns, phases, exchanges."""
