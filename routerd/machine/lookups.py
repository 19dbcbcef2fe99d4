"""Names that the supervisor has to know before it goes on.

It does nothing else meanwhile, but for what `meanwhile` names: it feeds the service manager's watchdog, which would
end the router. Names are looked up at the same time, for a bounded time. A reload may wait twice: for names of
listeners, and of a policy.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from workers.control.lookup import POLL_SECONDS, Lookup

LOOKUP_SECONDS: Final = 12.0  # two silent name servers take a resolver 10
SILENT: Final = "the resolver has not answered for {:g} s"

_meanwhile: list[Callable[[], None]] = []


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Have every wait in this context do something at each poll; it must not block."""
    _meanwhile.append(act)
    try:
        yield
    finally:
        _meanwhile.remove(act)


def wait_for(lookups: Collection[Lookup]) -> None:
    """Wait until all lookups are done, or the time is over."""
    end = time.monotonic() + LOOKUP_SECONDS
    while not all(one.done for one in lookups) and time.monotonic() < end:
        for act in _meanwhile:
            act()
        time.sleep(POLL_SECONDS)


def silence() -> str:
    """Return why a lookup that is not done is not."""
    return SILENT.format(LOOKUP_SECONDS)
