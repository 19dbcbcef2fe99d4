"""A seeded generator of flow logs with known answers, for first steps, tests and benchmarks."""
