"""The board: what the core shows all processes besides its counters; an update replaces it whole (board.h).

The board has at most ``ADDRESSES``, ``CONNECTIONS``, ``ROUTE_WORKERS``, ``ROUTE_ENTRIES``, ``ROUTE_ENDPOINTS``,
``CONNECTORS``, ``EDGES`` and ``LISTENERS`` rows, and as many routers as a network has; each text has at most ``TEXT``
bytes, a connector's error ``ERROR``.
"""

import zlib
from typing import Final

import msgspec

from shm.native import BOARD_ROOM

ADDRESSES: Final = 50  # the busiest ones; each is a label value in the store of the metrics
CONNECTIONS: Final = 100
ROUTE_WORKERS: Final = 50  # the busiest ones
ROUTE_ENTRIES: Final = 50  # the busiest keys of route tables
ROUTE_ENDPOINTS: Final = 50  # the busiest ones
CONNECTORS: Final = 100
EDGES: Final = 1000
LISTENERS: Final = 100
TEXT: Final = 160  # bytes
ERROR: Final = 500  # bytes of a connector's error: reason and advice stand at its end


class Outcomes(msgspec.Struct, array_like=True, frozen=True):
    """What became of copies of unsettled deliveries, as their receivers said.

    ``latency`` is the time from arrival to outcome in nanoseconds, of all together. ``delayed_1`` and ``delayed_10``
    took more than 1 s and more than 10 s; they count presettled ones, too.
    """

    accepted: int = 0
    rejected: int = 0
    released: int = 0
    modified: int = 0
    latency: int = 0
    delayed_1: int = 0
    delayed_10: int = 0


class AddressRow(msgspec.Struct, array_like=True, frozen=True):
    """An address; ``deliveries`` counts the copies forwarded to its receivers since the core knows it.

    ``backlog`` counts those of them that are not over. ``credit`` is that of its senders together, of whom ``dry`` have
    none.
    """

    address: str
    distribution: str
    deliveries: int
    receivers: int
    senders: int
    outcomes: Outcomes = Outcomes()
    backlog: int = 0
    credit: int = 0
    dry: int = 0


class ConnectionRow(msgspec.Struct, array_like=True, frozen=True):
    """An open connection."""

    worker: int
    container: str
    host: str
    role: str
    user: str


class RouteWorkerRow(msgspec.Struct, array_like=True, frozen=True):
    """A route worker: messages in, out, and refused by reason (`shm.contract.source_routes.REASONS`)."""

    address: str
    kind: str
    came: int
    went: int
    refused: dict[str, int] = {}


class RouteEntryRow(msgspec.Struct, array_like=True, frozen=True):
    """A key of a route table; ``messages`` counts the messages that took one of its entries."""

    table: str
    message_type: int
    subscription: int
    messages: int


class RouteEndpointRow(msgspec.Struct, array_like=True, frozen=True):
    """An endpoint of a route table; ``missed`` counts messages that found no receiver there."""

    table: str
    endpoint: str
    sent: int
    missed: int


class ConnectorRow(msgspec.Struct, array_like=True, frozen=True):
    """A connector; ``failures`` counts failed attempts, ``error`` is that of the last one while it is not up."""

    name: str
    up: bool
    failures: int
    error: str


class ListenerRow(msgspec.Struct, array_like=True, frozen=True):
    """A listener; ``workers`` accept on all its sockets, ``connections`` came in by it and are open."""

    name: str
    workers: list[int]
    connections: int


class RouterRow(msgspec.Struct, array_like=True, frozen=True):
    """Another router of the network; ``cost`` is that of the path to it, or None if there is no path.

    ``came`` and ``went`` count the deliveries from and to a neighbour on the present control and data links of its
    connection.
    """

    router: str
    next_hop: str
    cost: int | None
    came: int = 0
    went: int = 0


class EdgeRow(msgspec.Struct, array_like=True, frozen=True):
    """A connection between two routers, and its cost. A router is its place in `routers`, from 1; 0 is this one."""

    one: int
    other: int
    cost: int


class Board(msgspec.Struct, array_like=True):
    """The whole board; ``other`` counts deliveries to addresses while they were not in ``addresses``.

    ``other_outcomes`` are those of these deliveries.
    """

    addresses: list[AddressRow] = []
    other: int = 0
    connections: list[ConnectionRow] = []
    open_connections: int = 0
    route_workers: list[RouteWorkerRow] = []
    route_entries: list[RouteEntryRow] = []
    route_endpoints: list[RouteEndpointRow] = []
    connectors: list[ConnectorRow] = []
    routers: list[RouterRow] = []
    edges: list[EdgeRow] = []
    listeners: list[ListenerRow] = []
    other_outcomes: Outcomes = Outcomes()


_FIRST_OUT: Final = (
    "edges",
    "connections",
    "route_workers",
    "route_entries",
    "route_endpoints",
    "addresses",
    "routers",
    "listeners",
    "connectors",
)
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Board).decode


def short(text: str, most: int = TEXT) -> str:
    """Return the text in at most ``most`` bytes of UTF-8; a cut text ends in a checksum of the whole."""
    whole = text.encode("utf-8", "backslashreplace")
    if len(whole) <= most:
        return whole.decode()
    return f"{whole[: most - 12].decode('utf-8', 'ignore')}…{zlib.crc32(whole):08x}"


def encode(board: Board) -> bytes:
    """Return the board's bytes, at most `BOARD_ROOM`, without the last rows if there is no room for them."""
    while len(data := _encode(board)) > BOARD_ROOM:
        name = next(name for name in _FIRST_OUT if getattr(board, name))
        rows = getattr(board, name)
        board = msgspec.structs.replace(board, **{name: rows[: len(rows) // 2]})
    return data


def decode(data: bytes) -> Board | None:
    """Return the board from its bytes; None if they are empty or malformed."""
    try:
        return _decode(data) if data else None
    except msgspec.MsgspecError:
        return None
