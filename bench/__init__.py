"""The benchmark: load clients, scenarios, and the runner that compares routers. See docs/benchmark.md."""
