"""The forwarder as the control plane calls it: the flight recorder records each call that changes tables.

A call is a line of the ring before it is made (shm/memory/flight.h): its number here, and its arguments in MessagePack.
Bodies and control payloads are recorded as their lengths. A text that senders name is recorded as its hash, which the
core's lines about messages have, too. The texts themselves stand in it only if the configuration allows that.

A route table that no checkpoint has room for cannot be replayed.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from core.forwarder import forward
from core.forwarder.link_terms import LinkTerms

if TYPE_CHECKING:
    from typing_extensions import Buffer

# The number of a call is its place: new ones go to the end.
CALLS: Final = (
    "add_address", "set_text", "set_treatment", "set_fallback", "remove_address", "add_alias", "set_exit", "add_link",
    "move_link", "remove_link", "control", "unpark", "hold", "own_work", "own_action", "own_send", "post_control",
    "reclaim", "empty_place", "fill_place", "agents.serve", "agents.bound", "link_route_pairs.add",
    "link_route_pairs.pair", "pools.thin", "nodes.add_router", "nodes.remove_router", "nodes.set_path",
    "nodes.set_neighbour", "nodes.set_radius", "nodes.add_remote", "nodes.drop_remote", "nodes.take_neighbour",
    "nodes.give_neighbour", "nodes.set_border", "nodes.add_link", "nodes.tell", "stream_links.open",
    "stream_links.close", "stream_links.use", "stream_links.add_link", "stream_links.surplus",
    "routes.add", "routes.open", "routes.close", "routes.set_skip_dead", "routes.part", "routes.use_table",
    "routes.use_owners", "routes.settle", "routes.bind", "exchanges.put", "exchanges.remove", "thin_link",
)  # fmt: skip
NUMBERS: Final = {name: number for number, name in enumerate(CALLS)}

_encode: Final = msgspec.msgpack.Encoder().encode


class Recorder:
    """The flight recorder of one core. ``texts``: addresses are recorded, too."""

    def __init__(self, forwarder: "Forwarder", memory: "Buffer", generation: int, texts: bool) -> None:
        began, wall = time.monotonic_ns(), time.time_ns()
        self._flight = forward.Flight(forwarder, memory, generation, os.getpid(), began, wall, texts)
        self._texts = texts
        self.hashed = self._flight.hashed
        self.blind = self._flight.blind

    @property
    def room(self) -> int:
        """Lines that a checkpoint may take."""
        return self._flight.room

    def note(self, name: str, arguments: tuple[Any, ...], text: bytes | None = None) -> None:
        """Record a call that is about to be made. ``text`` is shown to readers, if that is allowed."""
        shown = text if self._texts else None
        self._flight.call(NUMBERS[name], _encode(arguments if shown is None else (*arguments, shown)))


class Forwarder(forward.Forwarder):
    """A forwarder whose calls are recorded once ``record`` was called."""

    recorder: Recorder | None = None

    def record(self, memory: "Buffer", generation: int = 1, texts: bool = False) -> None:
        """Record everything from now on in a segment, which must be the first thing that this forwarder does."""
        self.recorder = Recorder(self, memory, generation, texts)

    def set_text(self, handle: int, text: bytes) -> None:
        if self.recorder is not None:
            self.recorder.note("set_text", (handle,), text)
        super().set_text(handle, text)

    def add_alias(self, text: bytes, handle: int, scope: int = 0, agent: bool = False) -> None:
        if self.recorder is not None:
            self.recorder.note("add_alias", (self.recorder.hashed(text, scope), handle, scope, agent), text)
        super().add_alias(text, handle, scope, agent)

    def add_link(self, worker: int, link: int, generation: int, terms: LinkTerms) -> bool:
        if self.recorder is not None:
            self.recorder.note("add_link", (worker, link, generation, _told(terms)), terms.text)
        return super().add_link(worker, link, generation, terms)

    def own_send(self, link: int, address: int, content: bytes, control: bool = False) -> int | None:
        if self.recorder is not None:
            self.recorder.note("own_send", (link, address, len(content), control))
        return super().own_send(link, address, content, control)

    def post_control(self, worker: int, kind: int, payload: bytes) -> None:
        if self.recorder is not None:
            self.recorder.note("post_control", (worker, kind, len(payload)))
        super().post_control(worker, kind, payload)


def _told(terms: LinkTerms) -> dict[str, Any]:
    """Return terms of a link as they are recorded: an empty text stands for any."""
    return msgspec.structs.asdict(terms) | {"text": None if terms.text is None else b""}


class _Part:
    """What makes a part of the forwarder's tables record its calls."""

    def __init__(self, forwarder: forward.Forwarder, *_: object) -> None:
        self.of = forwarder

    @property
    def recorder(self) -> Recorder | None:
        """The recorder of its forwarder, if that is recorded."""
        return getattr(self.of, "recorder", None)


class Agents(_Part, forward.Agents):
    """As in ``forward``, recorded."""


class LinkRoutePairs(_Part, forward.LinkRoutePairs):
    """As in ``forward``, recorded."""


class Pools(_Part, forward.Pools):
    """As in ``forward``, recorded."""


class Nodes(_Part, forward.Nodes):
    """As in ``forward``, recorded. An octet stands for a router's id: its bit and 1, as in what is replayed."""

    def add_router(self, bit: int, text: bytes) -> None:
        if self.recorder is not None:
            self.recorder.note("nodes.add_router", (bit, bytes((bit + 1,))), text)
        super().add_router(bit, text)

    def add_link(
        self, worker: int, link: int, generation: int, place: int, kind: int, priority: int, terms: LinkTerms
    ) -> bool:
        if self.recorder is not None:
            self.recorder.note(
                "nodes.add_link", (worker, link, generation, place, kind, priority, _told(terms)), terms.text
            )
        return super().add_link(worker, link, generation, place, kind, priority, terms)

    def tell(self, link: int, place: int, content: bytes) -> int | None:
        if self.recorder is not None:
            self.recorder.note("nodes.tell", (link, place, len(content)))
        return super().tell(link, place, content)


class StreamLinks(_Part, forward.StreamLinks):
    """As in ``forward``, recorded."""


class Exchanges(_Part, forward.Exchanges):
    """As in ``forward``, recorded. A recording has hops alone: which of them a message matches is in its lines."""

    def put(
        self,
        address: int,
        separator: bytes,
        nodes: Sequence[tuple[int, int, bytes]],
        bindings: Sequence[tuple[int, int, int]],
        hops: Sequence[tuple[int, bytes]],
        alternate: int | None = None,
    ) -> None:
        if self.recorder is not None:
            self.recorder.note("exchanges.put", (address, [(hop, len(text)) for hop, text in hops], alternate))
        super().put(address, separator, nodes, bindings, hops, alternate)


class Routes(forward.Routes):
    """As in ``forward``, recorded. A call names the address; names and managed entities are hashes and numbers."""

    def __new__(cls, forwarder: forward.Forwarder, address: int) -> "Routes":
        recorder = getattr(forwarder, "recorder", None)
        if recorder is not None:
            recorder.note("routes.add", (address,))
        made = super().__new__(cls, forwarder, address)
        made.recorder = recorder
        return made

    recorder: Recorder | None = None

    def _note(self, name: str, *arguments: Any) -> None:
        if self.recorder is not None:
            self.recorder.note(f"routes.{name}", (self.address, *arguments))

    def open(self) -> None:
        self._note("open")
        super().open()

    def close(self) -> None:
        self._note("close")
        super().close()

    def set_skip_dead(self, skip: bool) -> None:
        self._note("set_skip_dead", skip)
        super().set_skip_dead(skip)

    def use_table(self, table: forward.RouteTable, moved: "Buffer") -> forward.RouteTable | None:
        if self.recorder is not None:
            lines = forward.table_lines(table)
            if lines is None or lines > self.recorder.room:
                self.recorder.blind()
            else:
                for part in forward.table_parts(table):
                    self.recorder.note("routes.part", part)
        self._note("use_table", bytes(memoryview(moved)))
        return super().use_table(table, moved)

    def use_owners(self, owners: forward.RouteOwners, moved: "Buffer") -> None:
        if self.recorder is not None and owners.endpoints > forward.OWNERS_MOST:
            self.recorder.blind()
        self._note("use_owners", owners.endpoints, bytes(memoryview(moved)))
        super().use_owners(owners, moved)

    def settle(self) -> bool:
        self._note("settle")
        return super().settle()

    def bind(self, endpoint: int, owner: int, address: int) -> None:
        self._note("bind", endpoint, owner, address)
        super().bind(endpoint, owner, address)


PARTS: Final[dict[str, Any]] = {
    "agents": Agents, "link_route_pairs": LinkRoutePairs, "pools": Pools, "nodes": Nodes, "stream_links": StreamLinks,
    "exchanges": Exchanges,
}  # fmt: skip


def _recorded(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.recorder is not None:
            self.recorder.note(name, (*arguments, named) if named else arguments)
        return made(self, *arguments, **named)

    return call


for _name in CALLS:
    _part, _, _method = _name.rpartition(".")
    _class: Any = PARTS.get(_part, Routes) if _part else Forwarder
    if _part != "routes" and _method not in vars(_class):
        setattr(_class, _method, _recorded(_name, getattr(_class, _method)))
