"""The forwarder as the control plane calls it: the flight recorder records each call that changes tables.

A call is a line of the ring before it is made (shm/memory/flight.h): its number here, and its arguments in MessagePack.
Bodies and control payloads are recorded as their lengths. A text that senders name is recorded as its hash, which the
core's lines about messages have, too. The texts themselves stand in it only if the configuration allows that.

What ``BLIND`` names cannot be replayed: its effects depend on more than a recording has.
"""

import os
import time
from collections.abc import Callable
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
    "link_route_pairs.pair", "pools.thin",
)  # fmt: skip
BLIND: Final = {
    "Exchanges": ("put",),
    "Nodes": ("add_router", "take_neighbour"),
    "StreamLinks": ("open",),
    "Routes": ("open",),
}
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
            told = msgspec.structs.asdict(terms) | {"text": None}
            self.recorder.note("add_link", (worker, link, generation, told), terms.text)
        return super().add_link(worker, link, generation, terms)

    def own_send(self, link: int, address: int, content: bytes, control: bool = False) -> int | None:
        if self.recorder is not None:
            self.recorder.note("own_send", (link, address, len(content), control))
        return super().own_send(link, address, content, control)

    def post_control(self, worker: int, kind: int, payload: bytes) -> None:
        if self.recorder is not None:
            self.recorder.note("post_control", (worker, kind, len(payload)))
        super().post_control(worker, kind, payload)


class _Part:
    """What makes a part of the forwarder's tables record its calls."""

    def __init__(self, forwarder: forward.Forwarder, *_: object) -> None:
        self.of = forwarder


class Agents(_Part, forward.Agents):
    """As in ``forward``, recorded."""


class LinkRoutePairs(_Part, forward.LinkRoutePairs):
    """As in ``forward``, recorded."""


class Pools(_Part, forward.Pools):
    """As in ``forward``, recorded."""


class Exchanges(_Part, forward.Exchanges):
    """As in ``forward``; what it does is not replayed."""


class Nodes(_Part, forward.Nodes):
    """As in ``forward``; what it does is not replayed."""


class StreamLinks(_Part, forward.StreamLinks):
    """As in ``forward``; what it does is not replayed."""


class Routes(_Part, forward.Routes):
    """As in ``forward``; what it does is not replayed."""


_PARTS: Final = {"agents": Agents, "link_route_pairs": LinkRoutePairs, "pools": Pools}
_BLIND: Final = (Exchanges, Nodes, StreamLinks, Routes)


def _recorded(name: str, made: Callable[..., Any], own: bool) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        recorder = getattr(self if own else self.of, "recorder", None)
        if recorder is not None:
            recorder.note(name, (*arguments, named) if named else arguments)
        return made(self, *arguments, **named)

    return call


def _unseeing(made: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if (recorder := getattr(self.of, "recorder", None)) is not None:
            recorder.blind()
        return made(self, *arguments, **named)

    return call


for _name in CALLS:
    _part, _, _method = _name.rpartition(".")
    _class: Any = _PARTS[_part] if _part else Forwarder
    if _method not in vars(_class):
        setattr(_class, _method, _recorded(_name, getattr(_class, _method), own=not _part))
for _class in _BLIND:
    for _method in BLIND[_class.__name__]:
        setattr(_class, _method, _unseeing(getattr(_class, _method)))
