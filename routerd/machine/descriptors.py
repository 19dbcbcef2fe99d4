"""The file descriptors of a supervisor at its start."""

import os
import resource
from typing import Final

LEAST: Final = 192  # an eventfd for each of 64 possible workers, and the descriptors of a few workers


def claim_standard_streams() -> None:
    """Open /dev/null as any of the descriptors 0, 1 and 2 that is closed.

    Otherwise the next socket or segment would get that number, and log lines would be written into it.
    """
    for wanted in (0, 1, 2):
        try:
            os.fstat(wanted)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            os.set_inheritable(opened, True)  # children inherit it, too


class TooFewError(Exception):
    """The process may open fewer files than a router needs."""


def raise_limit() -> None:
    """Raise the limit of open files to the hard limit; children inherit it.

    Each connection needs a descriptor. Raises TooFewError if the hard limit does not even suffice for the
    router itself.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= hard < LEAST:
        raise TooFewError(
            f"{hard} files may be open at once, and the router needs {LEAST} for itself, besides one for each "
            "connection; raise the limit (ulimit -n, LimitNOFILE=)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
