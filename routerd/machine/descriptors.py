"""The file descriptors that a supervisor begins with."""

import os
import resource
from typing import Final

LEAST: Final = 192  # an eventfd for each of 64 workers that may come, and what a few of them need


def claim_standard_streams() -> None:
    """Whoever has closed 0, 1 or 2 gets nothing there: otherwise the next socket or segment would be opened
    under that number, and a line of the log written into it."""
    for wanted in (0, 1, 2):
        try:
            os.fstat(wanted)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest one that is free
            os.set_inheritable(opened, True)  # children have them, too


class TooFewError(Exception):
    """The process may not open as many files as a router needs."""


def raise_limit() -> None:
    """Every connection is a descriptor: take all the hard limit allows. Children inherit it. Raises
    TooFewError where that does not even do for the router itself."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= hard < LEAST:
        raise TooFewError(
            f"{hard} files may be open at once, and the router needs {LEAST} for itself, beside one for each "
            "connection; raise the limit (ulimit -n, LimitNOFILE=)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
