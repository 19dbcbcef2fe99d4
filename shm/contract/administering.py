"""The management right of a connection: none, read or all (docs/security.md, Who may manage)."""

from typing import Final

from shm.contract.hosts import is_loopback

NONE: Final = "none"
READ: Final = "read"
ALL: Final = "all"
RIGHTS: Final = (NONE, READ, ALL)  # in ascending order

_READING: Final = frozenset(("QUERY", "READ", "EXPLAIN"))


def reads(operation: str) -> bool:
    """Return whether a management operation only reads; an unknown operation counts as a change."""
    return operation in _READING or operation.startswith("GET-")


def granted(configured: list[str], *, known: bool, host: str) -> str:
    """Return a connection's management right: the lowest of those ``configured`` for its listener and user.

    Without a configured right, a peer that is authenticated (``known``) or local gets `ALL`, any other peer
    gets `READ`. ``host`` is the peer's address without a port.
    """
    given = [one for one in configured if one]
    if given:
        return min(given, key=RIGHTS.index)
    return ALL if known or is_loopback(host) else READ
