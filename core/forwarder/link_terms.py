"""The terms of a link, which the control plane gives the forwarder."""

import msgspec


class LinkTerms(msgspec.Struct, frozen=True):
    """The terms of a link, of a worker or of the core itself. ``outgoing``: its peer receives.

    ``annotated``: its messages may name their destination and path. ``container``: it belongs to a broker.
    ``wants_override``: its peer asks messages where they go. ``fallback``: its messages come from a fallback
    destination and never go to one.
    """

    outgoing: bool
    address: int = 0  # handle; 0: anonymous, with the rights of `scope`
    capacity: int = 0  # credit of a sender
    grows: bool = False  # a fast sender gets more credit (settlement/credit.c)
    granted: int = 0  # credit that the sender already has; below 0: it overran
    settles: bool = False  # the receiver gets settled messages only
    connection: int | None = None  # its connection's index at its worker
    scope: int = 0  # number of an anonymous sender's rights
    annotated: bool = False
    text: bytes | None = None  # its address as other routers get it
    edge: int = 0  # number of its edge router's connection, or 0
    wants_override: bool = False
    fallback: bool = False
    container: bool = False
    to_table: bool = False  # its worker reports keys for a route table
