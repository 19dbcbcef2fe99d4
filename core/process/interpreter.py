"""What the core asks of its interpreter, so that its own thread never waits long for the lock."""

import gc
import sys
from typing import Final

SWITCH_SECONDS: Final = 0.0001  # for which another thread may hold the lock that the core's own thread awaits
YOUNG: Final = 250  # objects that a collection begins after, 30 us
AGED: Final = 2  # such collections before those that they left are visited, too
FULL: Final = 200  # of these collections before all objects are visited, which takes 1 ms for 3,000 links


def prepare() -> None:
    """Exempt present objects from collection, let it visit few at a time, and let threads take turns often."""
    gc.freeze()
    gc.set_threshold(YOUNG, AGED, FULL)
    sys.setswitchinterval(SWITCH_SECONDS)
