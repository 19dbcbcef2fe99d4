"""Attacks on a whole router, the clients that must not notice them, and the verdict on both."""
