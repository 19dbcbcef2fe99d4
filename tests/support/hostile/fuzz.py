"""Live fuzzers: each attacks one way into a router with conversations that are nearly right, a few at a time."""

import contextlib
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tests.support.clients import websocket
from tests.support.hostile import conversations, routers
from tests.support.hostile.mutations import hostile, mutated
from tests.support.hostile.target import Target

AT_ONCE = 8  # conversations
PAUSE = 0.1  # seconds for which a client listens where its conversation has a part without octets
LINGER = 0.3  # seconds, at most, that a client stays behind its last word
CLIENT_HELLO = bytes.fromhex("16030100520100004e0303") + bytes(range(71))
Conversation = Callable[[random.Random], list[bytes]]
Meeting = Callable[[random.Random, str], list[bytes]]
Say = Callable[[random.Random, list[bytes]], list[bytes]]


def plain(_: random.Random, parts: list[bytes]) -> list[bytes]:
    """As they are."""
    return parts


def in_web_frames(chance: random.Random, parts: list[bytes]) -> list[bytes]:
    """In WebSocket frames, some of which are wrong or interrupted by others; the request for a WebSocket goes first."""
    request = (
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {websocket.KEY}\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
    ).encode()
    wrong = chance.choice([0.0, 0.05, 0.3])
    framed = [mutated(chance, request) if chance.random() < wrong / 3 else request]
    for part in parts:
        opcode = chance.choice([0, 1, 8, 9, 10, 3, 15]) if chance.random() < wrong else websocket.BINARY
        frame = websocket.frame(part, opcode, flags=0x80 if chance.random() < 0.9 else chance.choice([0, 0x40, 0xF0]))
        framed.append(mutated(chance, frame) if chance.random() < wrong else frame)
    return framed


class Way:
    """One way into the router: where, what is said there, and how it is wrapped."""

    def __init__(
        self, port: str, *said: Conversation, say: Say = plain, tls: bool = False, meets: Meeting | None = None
    ) -> None:
        self.port, self.said, self.say, self.tls, self.meets = port, said, say, tls, meets

    def conversation(self, chance: random.Random, target: Target) -> list[bytes]:
        """What is said; a router's neighbour knows the id of the router that it meets."""
        return self.meets(chance, target.router) if self.meets else chance.choice(self.said)(chance)


WAYS = {
    "amqp": Way("amqp", conversations.amqp),
    "sasl": Way("amqp", conversations.login),
    "login": Way("login", conversations.login),
    "tls": Way("tls", conversations.amqp, conversations.login, conversations.management, tls=True),
    "websocket": Way("http", conversations.amqp, conversations.management, say=in_web_frames),
    "management": Way("amqp", conversations.management),
    "rmr": Way("rmr", conversations.rmr),
    "ockam": Way("ockam", conversations.ockam),
    "http": Way("http", conversations.http),
    "neighbour": Way("neighbour", meets=routers.neighbour),
    "edge": Way("edge", routers.edge),
}


class Conversant:
    """One connection that says its parts, takes what comes, and goes."""

    def __init__(self, sock: socket.socket, parts: Iterator[bytes], chance: random.Random) -> None:
        self.socket, self.parts, self.chance = sock, parts, chance
        self.rest = b""
        self.awaits = False  # an answer, before it goes on
        self.listens = 0.0  # until when
        self.deaf = chance.random() < 0.05
        self.until: float | None = None  # when it goes
        sock.setblocking(False)

    def step(self, counted: Counter[str]) -> bool:
        """Say the next part, or the rest of it. False: it is over."""
        if self.until is not None:
            self.hear()
            return time.monotonic() < self.until
        if self.awaits or time.monotonic() < self.listens:
            return self.hear()
        if not self.rest:
            part = next(self.parts, None)
            if part is None:
                self.until = time.monotonic() + LINGER * self.chance.random()
                return True
            if not part:
                self.listens = time.monotonic() + PAUSE
                return True
            counted["writes"] += 1
            self.rest = part
        try:
            sent = self.socket.send(self.rest)
            counted["octets"] += sent
            self.rest = self.rest[sent:]
        except (BlockingIOError, OSError) as error:
            return isinstance(error, BlockingIOError) or again(error)
        return self.hear()

    def hear(self) -> bool:
        """Take what has come; False at the end of the connection."""
        if self.deaf:
            return True
        try:
            got = bool(self.socket.recv(1 << 18))
            self.awaits = self.awaits and not got
            return got
        except OSError as error:
            return isinstance(error, BlockingIOError) or again(error)

    def close(self) -> None:
        """With a word, or with a reset."""
        with contextlib.suppress(OSError):
            if self.chance.random() < 0.5:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def again(error: OSError) -> bool:
    """Whether TLS only waits for the other side."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


class Fuzzer:
    """Attacks one way. ``counted``: connections, writes, octets, and connections that were refused."""

    def __init__(self, target: Target, way: str, seed: int) -> None:
        self.target, self.way = target, WAYS[way]
        self.chance = random.Random(f"{way} {seed}")  # noqa: S311 - no secret
        self.counted: Counter[str] = Counter()
        self.open: list[Conversant] = []

    def run(self, seconds: float) -> Counter[str]:
        """For so long; then all connections are closed."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self.step()
        finally:
            for one in self.open:
                one.close()
        return self.counted

    def step(self) -> None:
        while len(self.open) < AT_ONCE:
            try:
                self.open.append(self.begin())
                self.counted["connections"] += 1
            except OSError:
                self.counted["refused"] += 1
                time.sleep(0.05)
                break
        for one in list(self.open):
            if not one.step(self.counted):
                one.close()
                self.open.remove(one)

    def begin(self) -> Conversant:
        """A connection, with all that will be said on it."""
        chance = self.chance
        parts = self.way.say(chance, hostile(chance, self.way.conversation(chance, self.target)))
        sock = socket.create_connection(("127.0.0.1", getattr(self.target, self.way.port)), timeout=10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.way.tls and chance.random() < 0.2:
            parts = [mutated(chance, CLIENT_HELLO), *parts]
        elif self.way.tls:
            try:
                sock = self.target.trusting.wrap_socket(sock)
            except OSError:
                sock.close()
                raise
        one = Conversant(sock, iter(parts), chance)
        if self.way.say is in_web_frames:
            one.deaf, one.awaits = False, True
            sock.send(next(one.parts))
        return one
