"""The tables of results: pure functions from data frames to data frames."""
