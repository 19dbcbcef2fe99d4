"""What is configured about route tables, as core and workers are told: a ``routeTable`` entity each."""

from typing import Final

import msgspec


class TableSetup(msgspec.Struct, frozen=True):
    """One route table. ``address`` is where its senders send, and what its endpoints' addresses begin with.

    ``seed`` is a file, empty: none; ``stamp`` is another one when that file has changed. ``manager`` is the
    host:port of its Route Manager, empty: none; ``serve``: this router is one. ``pushers`` are the users that
    may give it a table by management, `*` stands for all of them. ``connect``: the router connects to
    endpoints. ``reply`` (transparent, proxied or sameConnection) and ``max_frame_size`` are the RMR
    transport's.

    Among Route Managers and applications this router is ``source``, host:port; applications know it as
    ``served_as``, empty: no matter. ``push_to`` are control ports of applications that do not ask,
    ``push_from`` addresses and networks of who may send tables over RMR, ``serve_to`` of who may ask for
    them, empty: all that are not of the public internet. At most ``most_applications`` that ask are known,
    ``most_of_a_host`` of each host, and ``dial_back`` (address, name, none) says whereto they are connected
    to when their connection is lost. A manager is asked every
    ``request_interval`` seconds. ``applications`` is the file that remembers them, empty: none. ``stash``
    keeps what is in use; empty: a file among the segments does, which ends with the router.
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


CONNECTION: Final = "$conn/"  # what the addresses of connections begin with, behind their table's


def connections(router_id: str) -> str:
    """The same in full: behind it is a connection's number. A network has many routers with a table of that
    address, each with connections of its own."""
    return f"{CONNECTION}{router_id}/"
