"""The compiled table of route workers: the bytes from which the pump loads it (table.c)."""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from shm.contract.scope_pattern import compile_scope_pattern
from shm.contract.source_routes import KINDS, RouteWorkerSetup, SourceRoutesSetup, Stop

FORMS: Final = ("amqp", "bare")
STRIPS: Final = ("", "count", "scopes", "marker")
METADATA: Final = ("hide", "copy", "keys", "merge")
CLASSES: Final = ("carry", "append", "local", "sealed")
MOST_SOURCES: Final = 256
LOCAL: Final = "local"

T = TypeVar("T")


class Sources:
    """The numbers of all sources in the route workers' rules. Raises ValueError if there are too many."""

    def __init__(self, workers: Iterable[RouteWorkerSetup]) -> None:
        names = dict.fromkeys(name for worker in workers for name in _named(worker))
        self._numbers = {name: number for number, name in enumerate(names)}
        if len(names) > MOST_SOURCES:
            raise ValueError(
                f"the route workers name {len(names)} different sources; at most {MOST_SOURCES} are possible"
            )

    def number(self, name: str) -> int:
        """Return a source's number; -1 if no rule names it."""
        return self._numbers.get(name, -1)

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of those sources that a rule names."""
        return [self._numbers[name] for name in names if name in self._numbers]

    def mask(self, names: Iterable[str]) -> bytes:
        bits = sum(1 << number for number in self.numbers(names))
        return bits.to_bytes(MOST_SOURCES // 8, "little")


class Scopes:
    """The scopes of addresses for route workers that have a pattern."""

    def __init__(self, workers: Iterable[RouteWorkerSetup]) -> None:
        self._patterns = {i: compile_scope_pattern(one.pattern) for i, one in enumerate(workers) if one.pattern}

    def __call__(self, worker: int, name: bytes) -> bytes | None:
        """Return the scope that a route worker's pattern finds in an address; ``worker`` is its number."""
        match = self._patterns[worker].search(name)
        return None if match is None else match[1]


def _named(worker: RouteWorkerSetup) -> list[str]:
    listed = [*worker.uplinks, *(worker.allow or ()), *(worker.inner_allow or ())]
    return [name for name in listed if name != LOCAL]


def compiled(setup: SourceRoutesSetup, sources: Sources) -> bytes:
    """Return the table's bytes."""
    limits = struct.pack(
        "<BBBBBHHHB",
        setup.hops,
        setup.onward,
        setup.returning,
        setup.nesting,
        setup.meta_keys,
        setup.address_octets,
        setup.route_octets,
        setup.meta_octets,
        setup.lenient_tail,
    )
    counts = struct.pack("<HH", len(setup.classes), len(setup.workers))
    keys = b"".join(bytes((CLASSES.index(kind),)) + _text(key) for key, kind in setup.classes.items())
    return limits + counts + keys + b"".join(_worker(one, sources) for one in setup.workers)


def entries(setup: SourceRoutesSetup) -> list[Stop]:
    """Return the route workers' addresses in the order of the table."""
    return [stop for one in setup.workers for stop in (one.address, one.inner) if stop is not None]


def _worker(one: RouteWorkerSetup, sources: Sources) -> bytes:
    metadata = "hide" if one.metadata == "restore" else one.metadata
    head = struct.pack(
        "<BBBBBBBBh",
        KINDS.index(one.kind),
        FORMS.index(one.form),
        STRIPS.index(one.strip),
        one.strip_count,
        METADATA.index(metadata),
        one.crosses,
        one.marks,
        bool(one.pattern),
        sources.number(f"worker:{one.address.text}"),
    )
    inner = None if one.inner is None else _entry(one.inner, one.inner_allow, sources)
    return b"".join(
        (
            head,
            _entry(one.address, one.allow, sources),
            _optional(inner),
            _optional(None if one.traced is None else _stop(one.traced)),
            _list(one.route, _stop),
            _list(one.returning, _stop),
            _list(one.keys, _text),
            _list(one.scopes, _text),
            sources.mask(one.uplinks),
            _optional(None if one.send_to is None else _list(one.send_to, _stop)),
        )
    )


def _entry(address: Stop, allow: list[str] | None, sources: Sources) -> bytes:
    listed = allow or ()
    access = bytes((allow is not None, LOCAL in listed)) + sources.mask(listed)
    return _stop(address) + _text(address.text) + access


def _stop(stop: Stop) -> bytes:
    return struct.pack("<BH", stop.type, len(stop.name)) + stop.name


def _text(text: str) -> bytes:
    octets = text.encode("utf-8", "surrogateescape")
    return struct.pack("<BH", 0, len(octets)) + octets


def _list(items: Sequence[T], write: Callable[[T], bytes]) -> bytes:
    return struct.pack("<H", len(items)) + b"".join(map(write, items))


def _optional(octets: bytes | None) -> bytes:
    return b"\0" if octets is None else b"\1" + octets
