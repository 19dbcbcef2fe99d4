"""The worker processes' way with source routes as a Python function (workers/source_routes/take.c)."""

import ctypes
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from shm.contract.source_routes import REASONS, SourceRoutesSetup
from workers.source_routes.table import Sources, compiled, entries

ROOT = Path(__file__).parents[3]
PASS, DONE, MORE, REFUSED = range(4)  # enum route_result


class _Source(ctypes.Structure):
    _fields_ = (("bits", ctypes.c_uint64 * 4), ("foreign", ctypes.c_bool))


class Sender(ctypes.Structure):
    """route_sender of workers/source_routes/source_routes.h."""

    _fields_ = (
        ("epoch", ctypes.c_uint32),
        ("off", ctypes.c_bool),
        ("anonymous", ctypes.c_bool),
        ("inter_router", ctypes.c_bool),
        ("limited", ctypes.c_bool),
        ("entry", ctypes.c_uint32),
        ("reach", ctypes.c_char_p),
        ("source", _Source),
    )


class _Routed(ctypes.Structure):
    _fields_ = (
        ("result", ctypes.c_int),
        ("reason", ctypes.c_uint32),
        ("copies", ctypes.c_uint32),
        ("visits", ctypes.c_uint32),
        ("origin", ctypes.c_uint32),
        ("detail", ctypes.c_char_p),
        ("bytes", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("first", ctypes.c_size_t),
        ("first_length", ctypes.c_size_t),
        ("opened", ctypes.c_uint32),
        ("layers", ctypes.c_uint32),
        ("need", ctypes.c_uint64),
    )


class RefusedError(Exception):
    """By a worker: reason and description."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass
class Answer:
    """What became of a message: PASS and MORE have no octets. ``first`` is what the core is told; fewer octets than
    ``need`` make nothing else of MORE."""

    result: int
    octets: bytes = b""
    first: bytes = b""
    visits: int = 0
    copies: list[bytes] = field(default_factory=list)
    need: int = 0


class Router:
    """The workers of one process."""

    def __init__(self, native: ctypes.CDLL) -> None:
        self._native = native
        native.piece.restype = ctypes.c_int64
        self._routed = _Routed()
        self._kept = b""

    def load(self, setup: SourceRoutesSetup) -> None:
        self.setup = setup
        self._sources = Sources(setup.workers)
        table = compiled(setup, self._sources)
        assert self._native.load(table, len(table)) == len(entries(setup))

    def table(self, octets: bytes) -> bool:
        """Whether octets are a table; if they are, it is the one from now on."""
        return bool(self._native.load(octets, len(octets)) >= 0)

    def __call__(
        self,
        message: bytes,
        source: frozenset[str] = frozenset({"user:x"}),
        target: str = "",
        *,
        complete: bool = True,
        inter_router: bool = False,
    ) -> Answer:
        """A message of ``source``, over a link to ``target`` or an anonymous one. Raises RefusedError."""
        sender = Sender(anonymous=not target, inter_router=inter_router)
        sender.source.foreign = not source or any(name.startswith("uplink:") for name in source)
        for number in self._sources.numbers(source):
            sender.source.bits[number // 64] |= 1 << (number % 64)
        if target:
            names = [stop.text for stop in entries(self.setup)]
            sender.off = target not in names
            sender.entry = names.index(target) if target in names else 0
            if sender.off:
                return Answer(PASS)
        self._kept = message = bytes(message)
        found = self._routed
        self._native.route(message, len(message), complete, ctypes.byref(sender), ctypes.byref(found))
        assert found.result >= 0, found.result
        if found.result == REFUSED:
            raise RefusedError(REASONS[found.reason], found.detail.decode())
        if found.result != DONE:
            return Answer(found.result, need=found.need)
        octets = ctypes.string_at(found.bytes, found.size)
        first = octets[found.first : found.first + found.first_length]
        answer = Answer(DONE, octets, first, found.visits)
        while self._native.copy(len(answer.copies), message, len(message), ctypes.byref(found)):
            answer.copies.append(ctypes.string_at(found.bytes, found.size))
        return answer

    def piece(self, octets: bytes) -> bytes:
        """What follows of a message that was not complete, as it leaves. Nothing: its end. Or ValueError."""
        size = self._native.piece(octets, len(octets), ctypes.byref(self._routed))
        if size < 0:
            raise ValueError(size)
        return ctypes.string_at(self._routed.bytes, size) if size else b""

    def counts(self, worker: int) -> tuple[int, int, int]:
        """In, out, refused."""
        numbers = (ctypes.c_uint64 * 3)()
        self._native.counts(worker, numbers)
        return numbers[0], numbers[1], numbers[2]


def build(folder: Path) -> Router:
    """Compile it, with the sanitizers that fit into another process."""
    library = folder / "routed.so"
    command = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O0", "-Wall", "-Wextra", "-Werror"]
    command += ["-Wno-unused-function", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    command += [f"-I{ROOT}"]
    command += ["-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", str(library)]
    command.append(str(Path(__file__).with_name("routes.c")))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Router(ctypes.CDLL(str(library)))
