"""The worker's turn, and the glue between C and Python."""
