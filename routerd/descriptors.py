"""The file descriptors that a supervisor begins with."""

import os
import resource


def claim_standard_streams() -> None:
    """Whoever has closed 0, 1 or 2 gets nothing there: otherwise the next socket or segment would be opened
    under that number, and a line of the log written into it."""
    for wanted in (0, 1, 2):
        try:
            os.fstat(wanted)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest one that is free
            os.set_inheritable(opened, True)  # children have them, too


def raise_limit() -> None:
    """Every connection is a descriptor: take all the hard limit allows. Children inherit it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
