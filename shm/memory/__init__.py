"""Shared memory: segments, rings, arenas, doorbells, journals and telemetry; what processes exchange in them."""
