"""The right to manage the router, as its connections have it."""

from typing import Final

from shm.contract.hosts import is_loopback

NONE: Final = "none"
READ: Final = "read"
ALL: Final = "all"
RIGHTS: Final = (NONE, READ, ALL)  # each is more than those before

_READING: Final = frozenset(("QUERY", "READ", "EXPLAIN"))


def reads(operation: str) -> bool:
    """Whether an operation changes nothing; of one that nobody knows it is not believed."""
    return operation in _READING or operation.startswith("GET-")


def granted(configured: list[str], *, known: bool, host: str) -> str:
    """The right of a connection: the least that is configured for it, where it comes in and for its user.

    Where nothing is: a peer that is ``known``, because it has proved who it is, or is on this machine, may do
    all; others read.
    """
    given = [one for one in configured if one]
    if given:
        return min(given, key=RIGHTS.index)
    return ALL if known or is_loopback(host) else READ
