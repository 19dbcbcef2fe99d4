"""Runs the core's forwarder over a recording, and compares the work that it makes.

The replayed forwarder is the one that a router runs, on segments of its own. It gets the recorded actions one by
one, and the recorded calls of the control plane at their places. Its work for each worker is compared with the
recorded work, octet for octet, except for blocks of the core's own arena. Their numbers depend on when workers had
room for more work, so a replay translates them.
"""

import mmap
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from core.forwarder.forward import Replay as Native
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import CALLS, PARTS, Forwarder
from routerd.replay import tables
from routerd.replay.exchanges import Exchanges
from routerd.replay.recording import Read, Recording, Step
from shm import native
from shm.contract.text import reason
from shm.memory import flight
from shm.memory.flight import RecordingError
from shm.native import MAX_WORKERS

_NO_RESERVE: Final = 0x4000  # of Linux; this Python has no name for it
OWN_MOST: Final = 1 << 20  # octets of a payload
_ARENA, _BLOCK, _TEXT = 3, slice(12, 16), slice(56, 64)
A_FREE: Final = 8
W_SEND: Final = 1
TERMS_LAST: Final = ("add_link", "nodes.add_link")  # calls whose last argument is a link's terms


class Difference(NamedTuple):
    """Where a replay first did something else: the record's number, its worker, and what was said (None: nothing)."""

    number: int
    worker: int
    recorded: bytes | None
    replayed: bytes | None


class Memory:
    """A router's segments in memory of this process alone, of a recording's sizes."""

    def __init__(self, recording: Recording) -> None:
        about = recording.about
        places = about.places
        self.control = self._map(native.control_bytes(places))
        native.format_control(self.control, places, about.arena_bytes)
        self.rings = self._map(native.rings_bytes(places))
        native.format_rings(self.rings, places)
        self.arenas = [self._map(about.arena_bytes) for _ in range(places)] + [self._map(about.core_arena_bytes)]
        for arena in self.arenas:
            native.format_arena_segment(arena)

    @staticmethod
    def _map(size: int) -> mmap.mmap:
        try:
            return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except (OSError, ValueError) as error:
            raise RecordingError(f"a replay needs {size} octets of address space: {error}") from None


class Replay:
    """A core that is given a recording's steps, one at a time.

    Raises RecordingError if the recording makes no sense.
    """

    def __init__(self, recording: Recording) -> None:
        if (unfit := recording.unfit) is not None:
            raise RecordingError(f"{recording.name} cannot be replayed: {unfit}")
        self.recording = recording
        self._memory = memory = Memory(recording)
        about = recording.about
        self._forwarder = Forwarder(
            about.places, memory.control, memory.rings, memory.arenas, [-1] * about.places, active=about.workers
        )
        self._native = Native(self._forwarder)
        self._tables = tables.Tables(self._forwarder)
        self._exchanges = Exchanges(self._forwarder, self._native)
        self._parts = {name: part(self._forwarder) for name, part in PARTS.items()}
        self._parts |= {"routes": self._tables, "exchanges": self._exchanges}
        self._own: dict[int, int] = {}  # blocks of the core's arena: as recorded, as replayed
        self._first, self._entries = True, False
        self.steps = 0

    def run(self, before: int | None = None, told: Callable[[Step], None] | None = None) -> Difference | None:
        """Do all steps, or those of lines before ``before``. Return where the work first differs, or None.

        ``told`` is called with each step before it is done.
        """
        for step in self.recording.steps():
            if before is not None and step.number >= before:
                return None
            if told is not None:
                told(step)
            if (difference := self.do(step)) is not None:
                return difference
        return None

    def do(self, step: Step) -> Difference | None:
        """Do one step. Return how the work differs, or None."""
        self.steps += 1
        for read in step.reads:
            self._read(step, read)
        difference = self._done(step)
        self._exchanges.over(step.reads)
        self._first = False
        return difference

    def _done(self, step: Step) -> Difference | None:
        match step.kind:
            case "action":
                self._native.action(step.worker, self._renamed(step.octets), step.now)
            case "work":
                return self._compare(step)
            case "call":
                self._call(step)
            case "fans" | "parked":
                self._native.portion(step.kind == "parked", step.what, step.now)
            case "forgotten":
                self._native.forget(step.hashed, step.octets[0], step.what)
            case "checkpoint":
                self._entries = self._first
            case "entry" if self._entries:
                of = self._tables if tables.ROUTES <= step.what <= tables.OWNERS else self._native
                self._checked(step, of.restore(step.what, step.octets))
            case "checkpoint end" if self._entries:
                self._checked(step, self._tables.restored())
                self._checked(step, self._native.restored())
                for address in self._native.named():
                    self._tables.keep(address)
                self._entries = False
        return None

    def _checked(self, step: Step, wrong: str | None) -> None:
        if wrong is not None:
            raise RecordingError(f"{self.recording.name}, record {step.number}: a checkpoint makes no sense: {wrong}")

    def _read(self, step: Step, read: Read) -> None:
        if read.kind == flight.TEXT:
            known = self._native.text(read.worker, read.block, read.length, read.number, read.hashed)
        elif read.kind == flight.ROUTED:
            known = self._native.routed(read.worker, read.block, read.detail)
        elif read.kind == flight.KEY:
            known = self._native.keyed(read.worker, read.block, read.number, read.length, read.hashed, read.detail)
        elif read.kind == flight.HOPS:
            self._exchanges.give(read)
            known = True
        else:
            known = self._native.state(read.worker, read.block, read.number)
        if not known:
            raise RecordingError(f"{self.recording.name}, record {step.number}: there is no block {read.block}")

    # ---- work ----

    def _compare(self, step: Step) -> Difference | None:
        if step.worker >= self.recording.about.places:
            raise RecordingError(f"{self.recording.name}, record {step.number}: there is no worker {step.worker}")
        self._forwarder.publish()
        made = self._native.work(step.worker)
        if made is None:
            return Difference(step.number, step.worker, step.octets, None)
        return None if self._same(step.octets, made) else Difference(step.number, step.worker, step.octets, made)

    def _same(self, recorded: bytes, made: bytes) -> bool:
        """Whether two records of work are the same but for the numbers of blocks of the core's own arena."""
        own = self.recording.about.places
        if recorded[0] == W_SEND and _number(recorded[_TEXT]) and _number(made[_TEXT]):
            made = made[: _TEXT.start] + recorded[_TEXT]
        if recorded[_ARENA] == made[_ARENA] == own and recorded[_BLOCK] != made[_BLOCK]:
            self._own[_number(recorded[_BLOCK])] = _number(made[_BLOCK])
            made = made[: _BLOCK.start] + recorded[_BLOCK] + made[_BLOCK.stop :]
        return made == recorded

    def _renamed(self, record: bytes) -> bytes:
        """Return an action with the block of the core's arena that it gives back as the replay knows it."""
        if not self._own or record[0] != A_FREE or record[_ARENA] != self.recording.about.places:
            return record
        block = self._own.pop(_number(record[_BLOCK]), None)
        if block is None:
            return record
        return record[: _BLOCK.start] + block.to_bytes(4, "little") + record[_BLOCK.stop :]

    # ---- calls ----

    def _call(self, step: Step) -> None:
        where = f"{self.recording.name}, record {step.number}"
        if step.what >= len(CALLS):
            raise RecordingError(f"{where}: call number {step.what} is unknown")
        name = CALLS[step.what]
        try:
            arguments = msgspec.msgpack.decode(step.octets, type=list[Any])
            named = arguments.pop() if arguments and isinstance(arguments[-1], dict) and name not in TERMS_LAST else {}
            call = self._bound(name, arguments)
        except (msgspec.MsgspecError, ValueError, TypeError, IndexError, KeyError, RecursionError) as error:
            raise RecordingError(f"{where}: the call {name} makes no sense: {reason(error)}") from None
        self._native.at(step.now)
        try:
            call(**named)
        except (ValueError, KeyError, OverflowError, MemoryError):
            pass  # so did the recorded one
        except TypeError as error:
            raise RecordingError(f"{where}: the call {name} makes no sense: {reason(error)}") from None

    def _bound(self, name: str, arguments: list[Any]) -> Callable[..., Any]:
        """Return a call with its arguments as the forwarder takes them."""
        forwarder = self._forwarder
        part, _, method = name.rpartition(".")
        if name == "agents.serve":
            self._tables.keep(arguments[0])
        match name:
            case "set_exit" | "nodes.set_border":
                self._tables.keep(arguments[0])
            case "nodes.add_router":
                arguments = arguments[:2]
            case "nodes.add_link":
                arguments = [*arguments[:6], msgspec.convert(arguments[6], LinkTerms)]
            case "nodes.tell":
                link, place, length = arguments
                arguments = [link, place, _nothing(length)]
            case "remove_address":
                part, method = "routes", "remove_address"
            case "set_text":
                return _with(forwarder.set_text, [arguments[0], b""])
            case "add_alias":
                return _with(forwarder.add_alias, arguments[:4])
            case "add_link":
                worker, link, generation, terms = arguments[:4]
                return _with(forwarder.add_link, [worker, link, generation, msgspec.convert(terms, LinkTerms)])
            case "own_send":
                link, address, length, control = arguments
                return _with(forwarder.own_send, [link, address, _nothing(length), control])
            case "post_control":
                worker, kind, length = arguments
                return _with(forwarder.post_control, [worker, kind, _nothing(length)])
            case "reclaim" | "empty_place" | "fill_place" | "hold" if not 0 <= arguments[0] < MAX_WORKERS:
                raise ValueError(f"there is no worker {arguments[0]}")
        return _with(getattr(self._parts[part] if part else forwarder, method), arguments)


def _with(call: Callable[..., Any], arguments: list[Any]) -> Callable[..., Any]:
    return lambda **named: call(*arguments, **named)


def _nothing(length: int) -> bytes:
    if not 0 <= length <= OWN_MOST:
        raise ValueError(f"{length} octets are no payload")
    return bytes(length)


def _number(octets: bytes) -> int:
    return int.from_bytes(octets, "little")
