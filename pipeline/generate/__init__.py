"""A seeded generator of flow logs whose true answers are known: for tests, benchmarks and first steps."""
