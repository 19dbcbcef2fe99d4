"""Builds and runs the simulation of a whole router in one process."""
