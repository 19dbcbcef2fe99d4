"""Access to addresses of source routes (docs/source-routes.md, "Who may send where").

A source is the set of names of whoever handed a message to the router: `worker:ADDRESS` for a route worker;
`user:ID`, `link:TARGET` and `listener:NAME` for a client; `uplink:CONNECTOR` for another router or network.
Each route worker on the way replaces the source by its own. Return routes never count.

An address without a list of sources is open to all but uplinks; a route worker without a list of addresses
may send to all.
"""

from collections.abc import Iterable

Source = frozenset[str]
LOCAL = "local"  # in a list of sources: every source that is not an uplink
KINDS = ("worker", "user", "link", "listener", "uplink")


def is_foreign(source: Source) -> bool:
    """Whether a message comes from outside the router, by an uplink, or from nobody known."""
    return not source or any(name.startswith("uplink:") for name in source)


def not_from(source: Source, allowed: Iterable[str] | None) -> str:
    """Say that an address takes no messages from a source; None: no sources are listed for it."""
    rule = f"{LOCAL} (nothing is listed)" if allowed is None else ", ".join(sorted(allowed))
    return f"{', '.join(sorted(source)) or 'nobody known'} may not send here; allowed: {rule or 'nobody'}"


def not_to(sender: object, allowed: Iterable[object]) -> str:
    """Say that the route worker at an address may send to the listed addresses only."""
    return f"{sender} may not send here, only to: {', '.join(sorted(map(str, allowed))) or 'nowhere'}"
