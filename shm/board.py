"""What the core shows everybody beside its counters: the board (board.h), replaced as a whole.

Bounded: ``ADDRESSES``, ``CONNECTIONS``, ``ROUTE_WORKERS``, ``ROUTE_ENTRIES`` and ``ROUTE_ENDPOINTS`` rows,
each text cut to ``TEXT`` bytes.
"""

import zlib
from typing import Final

import msgspec

from shm.native import BOARD_ROOM

ADDRESSES: Final = 50  # the busiest ones, each a label value in whatever stores the metrics
CONNECTIONS: Final = 100
ROUTE_WORKERS: Final = 50  # the busiest ones
ROUTE_ENTRIES: Final = 50  # of route tables; the busiest ones
ROUTE_ENDPOINTS: Final = 50  # the same
TEXT: Final = 160  # bytes


class AddressRow(msgspec.Struct, array_like=True, frozen=True):
    """An address; ``deliveries`` counts copies forwarded to receivers since the address is known."""

    address: str
    distribution: str
    deliveries: int
    receivers: int
    senders: int


class ConnectionRow(msgspec.Struct, array_like=True, frozen=True):
    """An open connection, as its worker told of it."""

    worker: int
    container: str
    host: str
    role: str
    user: str


class RouteWorkerRow(msgspec.Struct, array_like=True, frozen=True):
    """A worker of source routes. ``refused``: by the reasons of shm/contract/source_routes.py."""

    address: str
    kind: str
    came: int
    went: int
    refused: dict[str, int] = {}


class RouteEntryRow(msgspec.Struct, array_like=True, frozen=True):
    """A key of a route table; ``messages`` have taken one of its entries since the table has it."""

    table: str
    message_type: int
    subscription: int
    messages: int


class RouteEndpointRow(msgspec.Struct, array_like=True, frozen=True):
    """An endpoint of a route table. ``missed``: messages whose turn found nobody there."""

    table: str
    endpoint: str
    sent: int
    missed: int


class Board(msgspec.Struct, array_like=True):
    """All of it. ``other`` counts deliveries to addresses while they were not among ``addresses``."""

    addresses: list[AddressRow] = []
    other: int = 0
    connections: list[ConnectionRow] = []
    open_connections: int = 0
    route_workers: list[RouteWorkerRow] = []
    route_entries: list[RouteEntryRow] = []
    route_endpoints: list[RouteEndpointRow] = []


_FIRST_OUT: Final = ("connections", "route_workers", "route_entries", "route_endpoints", "addresses")
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Board).decode


def short(text: str) -> str:
    """The text in at most ``TEXT`` bytes of valid UTF-8; one that was cut ends in a checksum of the whole."""
    whole = text.encode("utf-8", "backslashreplace")
    if len(whole) <= TEXT:
        return whole.decode()
    return f"{whole[: TEXT - 12].decode('utf-8', 'ignore')}…{zlib.crc32(whole):08x}"


def encode(board: Board) -> bytes:
    """The board's bytes; rows that find no room are left out from the end."""
    while len(data := _encode(board)) > BOARD_ROOM:
        name = next(name for name in _FIRST_OUT if getattr(board, name))
        rows = getattr(board, name)
        board = msgspec.structs.replace(board, **{name: rows[: len(rows) // 2]})
    return data


def decode(data: bytes) -> Board | None:
    """What was written; None for nothing, and for bytes that make no sense."""
    try:
        return _decode(data) if data else None
    except msgspec.MsgspecError:
        return None
