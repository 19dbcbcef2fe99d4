"""The ``routeTable`` entities as core and workers need them (docs/route-tables.md)."""

from typing import Final

import msgspec


class TableSetup(msgspec.Struct, frozen=True):
    """One route table.

    Senders send to ``address``, which is also the prefix of its endpoints' addresses. ``seed`` is a file, or
    empty; ``stamp`` changes with the file. ``manager`` is the host:port of its Route Manager, or empty; with
    ``serve`` this router is a Route Manager itself. ``pushers`` are the users that may replace the table by
    management; `*` permits all. With ``connect`` the router connects to endpoints. ``reply`` (transparent,
    proxied or sameConnection) and ``max_frame_size`` (bytes) apply to RMR connections.

    Route Managers and applications see this router as ``source`` (host:port); ``served_as`` is the name that
    applications know it by, if it matters. The router pushes tables to the control ports ``push_to``.
    ``push_from`` lists the addresses and networks that may send tables over RMR, ``serve_to`` those that may
    request them; an empty list permits every host outside the public internet. The router remembers at most
    ``most_applications`` that request tables and ``most_of_a_host`` of one host; ``dial_back`` (address,
    name, none) says where it reconnects to them. It requests a table from its manager every
    ``request_interval`` seconds. ``applications`` is the file that remembers them, or empty. ``stash`` is
    the file of the snapshot; if it is empty, a file among the segments lasts as long as the router.
    """

    name: str
    address: str
    seed: str = ""
    stamp: tuple[int, ...] = ()
    manager: str = ""
    serve: bool = False
    compatible: bool = False
    skip_dead: bool = True
    connect: bool = True
    reply: str = "proxied"
    max_frame_size: int = 16 << 20
    pushers: tuple[str, ...] = ("*",)
    source: str = ""
    served_as: str = ""
    push_to: tuple[str, ...] = ()
    push_from: tuple[str, ...] = ()
    serve_to: tuple[str, ...] = ()
    dial_back: str = "address"
    most_applications: int = 1000
    most_of_a_host: int = 100
    request_interval: int = 5
    applications: str = ""
    stash: str = ""


CONNECTION: Final = "$conn/"  # follows the table's address in the addresses of RMR connections


def connections(router_id: str) -> str:
    """Return the part of an RMR connection's address between the table's address and the connection's number.

    The router's id keeps it unique in a network, where many routers may have a table of the same address.
    """
    return f"{CONNECTION}{router_id}/"
