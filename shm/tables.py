"""What is configured about route tables, as core and workers are told: a ``routeTable`` entity each."""

import msgspec


class TableSetup(msgspec.Struct, frozen=True):
    """One route table. ``address`` is where its senders send, and what its endpoints' addresses begin with.

    ``seed`` is a file, empty: none; ``stamp`` is another one when that file has changed. ``manager`` is the
    host:port of its Route Manager, empty: none; ``serve``: this router is one. ``pushers`` are the users that
    may give it a table by management, `*` stands for all of them. ``connect``: endpoints that no
    AMQP client receives for are connected to. ``reply`` (transparent, proxied or sameConnection) and
    ``max_frame_size`` are the RMR transport's.
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
