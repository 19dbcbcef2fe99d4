"""The terms of a link, which the control plane gives the forwarder."""

import msgspec


class LinkTerms(msgspec.Struct, frozen=True):
    """Terms of a link of a worker, or of the core itself. ``outgoing``: its peer receives.

    ``annotated``: its messages may say where they go and have been. ``container``: a broker's. ``through``:
    its peer asks messages where they go. ``fallback``: its messages come from a fallback destination and go
    to none.
    """

    outgoing: bool
    address: int = 0  # handle; 0: anonymous, with the rights of `scope`
    capacity: int = 0  # credit of a sender
    granted: int = 0  # credit that its sender has already; below 0: it overran
    settles: bool = False  # the receiver is sent settled messages only
    scope: int = 0  # of an anonymous sender's rights
    annotated: bool = False
    text: bytes | None = None  # what other routers are told of its address
    edge: int = 0  # number of the edge router's connection that it is of; 0: of none
    through: bool = False
    fallback: bool = False
    container: bool = False
    keyed: bool = False  # its worker tells keys for a route table
