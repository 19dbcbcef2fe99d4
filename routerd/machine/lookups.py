"""Names that the supervisor has to know before it goes on.

It does nothing else meanwhile: it does not feed the service manager's watchdog either, which would end the router.
So names are looked up at the same time, for a bounded time. A reload may wait twice: for names of listeners, and of a
policy.
"""

import time
from collections.abc import Collection
from typing import Final

from workers.control.lookup import POLL_SECONDS, Lookup

LOOKUP_SECONDS: Final = 12.0  # two silent name servers take a resolver 10; the watchdog waits for 30
SILENT: Final = "the resolver has not answered for {:g} s"


def wait_for(lookups: Collection[Lookup]) -> None:
    """Wait until all lookups are done, or the time is over."""
    end = time.monotonic() + LOOKUP_SECONDS
    while not all(one.done for one in lookups) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)


def silence() -> str:
    """Return why a lookup that is not done is not."""
    return SILENT.format(LOOKUP_SECONDS)
