"""When simulated clocks begin."""

from typing import Final

# nanoseconds: CLOCK_MONOTONIC of a machine that has run for ten days, as a router's does. Where 0 stands for "not yet",
# it is long ago
BEGIN: Final = 10 * 86_400 * 1_000_000_000
