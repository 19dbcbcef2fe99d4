"""``python session_victim.py SEED LIVES``: a worker's pump whose clients talk nonsense.

The core is pump_victim's, at its best behaviour. Clients send sessions, links and transfers that are mostly right, in
pieces of any size, with fields, frames and octets that are not; they read late or never, and go at any moment.
Exit status 0: the pump got through all of it, and no connection is left.
"""

import random
import socket
import struct
from contextlib import suppress

from proton import Data, Described, symbol, uint, ulong, ushort

from tests.support.clients.wire import Frame, parse
from tests.support.programs.pump_victim import World, repeat
from workers.loop.pump import Trace

HEADER, SASL = b"AMQP\0\1\0\0", b"AMQP\3\1\0\0"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
NUMBERS = (0, 1, 2, 3, 63, 2**31 - 1, 2**31, 2**32 - 1)
CRASHER = bytes.fromhex("d000000001ffffffff")  # a list with less room than elements
ROUNDS, CLIENTS, TURNS = 120, 4, 400


def octets(value: object) -> bytes:
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def frame(channel: int, code: int, *fields: object, payload: bytes = b"", kind: int = 0) -> bytes:
    body = octets(Described(ulong(code), list(fields))) + payload
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


class NoneError(Exception):
    """There is no session or link to speak of."""


class Client:
    """One connection, and what its peer should know of it."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world, self.chance = world, chance
        self.socket = socket.create_connection(world.listening.getsockname())
        self.socket.setblocking(False)
        self.sessions: dict[int, dict[int, bool]] = {}  # by channel: by handle, whether the router sends on it
        self.ids: dict[int, int] = {}
        self.going_on: set[tuple[int, int]] = set()
        self.names: dict[tuple[int, str, bool], int] = {}  # handles by channel, name, and whether the router sends
        self.room: dict[tuple[int, int], int] = {}  # deliveries that the router still takes
        self.channels: dict[int, int] = {}  # ours, by the router's
        self.handles: dict[tuple[int, int], int] = {}  # ours, by our channel and the router's
        self.heard = b""
        self.deaf = chance.random() < 0.1
        greeting = SASL + frame(0, 0x41, symbol("ANONYMOUS"), b"", kind=1) if chance.random() < 0.3 else b""
        limit = uint(chance.choice((512, 1000, 16384)))
        self.unsent = greeting + HEADER + frame(0, OPEN, "victim", None, limit, ushort(chance.choice((3, 100))))

    def number(self, right: int) -> uint:
        return uint(self.chance.choice(NUMBERS) if self.chance.random() < 0.005 else right % 2**32)

    def channel(self) -> int:
        if self.chance.random() < 0.002:
            return self.chance.choice((0, 1, 2, 99, 65535))
        if not self.sessions:
            raise NoneError
        return self.chance.choice(list(self.sessions))

    def begin(self) -> bytes:
        channel = self.chance.randrange(4)
        if channel in self.sessions and self.chance.random() < 0.99:
            return b""
        self.sessions[channel] = {}
        self.ids[channel] = self.chance.choice((0, 2**32 - 3))
        answers = ushort(self.chance.randrange(3)) if self.chance.random() < 0.01 else None
        numbers = (self.number(0), self.number(self.chance.choice((1, 100, 2**31 - 1))), self.number(2**31 - 1))
        return frame(channel, BEGIN, answers, *numbers)

    def attach(self) -> bytes:
        channel, handle = self.channel(), self.chance.choice((0, 1, 2, 3, 2**31 - 1))
        links = self.sessions.get(channel, {})
        if handle in links and self.chance.random() < 0.99:
            return b""
        receives = self.chance.random() < 0.5
        links[handle] = receives
        ends = [Described(ulong(code), [self.chance.choice(("fuzz", "fuzz", None))]) for code in (0x28, 0x29)]
        name = self.chance.choice((f"{handle}", f"{handle}\0{receives}", "f" * 300 + f"{handle}"))
        if self.chance.random() < 0.01:
            name = "a"
        self.names[channel, name.partition("\0")[0], receives] = handle
        odd = self.chance.random()
        if odd < 0.003:
            return frame(channel, ATTACH, name, uint(handle), receives, payload=CRASHER)
        return frame(
            channel, ATTACH, name, self.number(handle), receives, None, None, *ends, None, None, self.number(0)
        )

    def link(self, receives: bool) -> tuple[int, int]:
        channel = self.channel()
        right = [handle for handle, role in self.sessions.get(channel, {}).items() if role == receives]
        if self.chance.random() < 0.005:
            return channel, self.chance.choice((0, 1, 5, 2**31 - 1))
        if not right:
            raise NoneError
        return channel, self.chance.choice(right)

    def flow(self) -> bytes:
        channel, handle = self.link(self.chance.random() < 0.8)
        numbers = (self.number(0), self.number(2**31 - 1), self.number(0), self.number(2**31 - 1))
        if self.chance.random() < 0.2:
            return frame(channel, FLOW, *numbers, None, None, None, None, None, self.chance.random() < 0.5)
        drain, echo = self.chance.random() < 0.1, self.chance.random() < 0.2
        credit = self.number(self.chance.choice((1, 10, 100)))
        return frame(channel, FLOW, *numbers, self.number(handle), self.number(0), credit, None, drain, echo)

    def transfer(self) -> bytes:
        channel, handle = self.link(receives=False)
        key = channel, handle
        more, settled, aborted = (self.chance.random() < share for share in (0.3, 0.3, 0.05))
        number = self.ids.get(channel, 0)
        if key not in self.going_on and not self.room.get(key) and self.chance.random() < 0.998:
            raise NoneError
        if key in self.going_on:
            head: tuple[object, ...] = (None, None, None)
        else:
            self.room[key] = self.room.get(key, 0) - 1
            self.ids[channel] = (number + 1) % 2**32
            head = (self.number(number), str(number).encode(), uint(0))
        (self.going_on.add if more and not aborted else self.going_on.discard)(key)
        code = self.chance.choice((None,) * 40 + (0x23, 0x24, 0x34, 2**40))
        said = code and Described(ulong(code), [])
        size = self.chance.choice((0, 1, 50, 400, 3000, 15000))
        payload = b"\0\x53\x75\xb0" + struct.pack(">I", size) + bytes(size)
        fields = (uint(handle), *head, settled, more, None, said, None, aborted)
        return frame(channel, TRANSFER, *fields, payload=payload[: self.chance.randrange(len(payload) + 1)])

    def disposition(self) -> bytes:
        first = self.chance.randrange(20)
        last = uint((first + self.chance.choice((0, 1, 10, 2**31 - 30))) % 2**32)
        state = self.chance.choice((None, *(Described(ulong(code), []) for code in (0x23, 0x24, 0x25, 0x26, 0x27, 77))))
        receiver, settled = self.chance.random() < 0.7, self.chance.random() < 0.7
        return frame(self.channel(), DISPOSITION, receiver, self.number(first), last, settled, state)

    def detach(self) -> bytes:
        channel, handle = self.link(self.chance.random() < 0.5)
        if self.chance.random() < 0.995:
            self.sessions.get(channel, {}).pop(handle, None)
        self.going_on.discard((channel, handle))
        return frame(channel, DETACH, uint(handle), self.chance.random() < 0.5)

    def end(self) -> bytes:
        channel = self.channel()
        for handle in self.sessions.pop(channel, {}):
            self.going_on.discard((channel, handle))
        return frame(channel, END)

    def nonsense(self) -> bytes:
        octets_ = bytearray(self.chance.choice((self.flow, self.transfer, self.attach, self.begin, self.disposition))())
        for _ in range(self.chance.randrange(1, 4)):
            if len(octets_) > 8:
                octets_[self.chance.randrange(8, len(octets_))] = self.chance.getrandbits(8)
        return bytes(octets_)

    def hear(self, data: bytes) -> None:
        """Remember the router's channels, handles and credit."""
        self.heard += data
        if self.heard.startswith(b"AMQP"):
            self.heard = self.heard[8:]
        while len(self.heard) >= 8 and len(self.heard) >= (size := int.from_bytes(self.heard[:4], "big")):
            octets_, self.heard = self.heard[:size], self.heard[size:]
            with suppress(UnicodeDecodeError):  # of a damaged name, which comes back
                self.learn(int.from_bytes(octets_[6:8], "big"), parse(octets_) if not octets_[5] else None)

    def learn(self, channel: int, got: Frame | None) -> None:
        if not got:
            return
        if got.code == BEGIN:
            self.channels[channel] = got.fields[0]
        ours = self.channels.get(channel, 0)
        if got.code == ATTACH:
            self.handles[ours, got.fields[1]] = self.names.get((ours, got.fields[0], not got.fields[2]), 0)
        elif got.code == FLOW and len(got.fields) > 6 and got.fields[4] is not None:
            self.room[ours, self.handles.get((ours, got.fields[4]), 0)] = got.fields[6]

    def act(self) -> None:
        """Say some frames, and send a piece of all that is said."""
        kinds = (self.begin, self.attach, self.flow, self.transfer, self.disposition, self.detach, self.end)
        weights = (2, 6, 8, 20, 8, 2, 0.5)
        for _ in range(self.chance.randrange(6)):
            with suppress(NoneError):
                self.unsent += (self.chance.choices(kinds, weights)[0] if self.sessions else self.begin)()
        with suppress(NoneError):
            self.unsent += self.nonsense() if self.chance.random() < 0.005 else b""
        if self.chance.random() < 0.002:
            self.unsent += frame(0, self.chance.choice((OPEN, CLOSE)))
        size = self.chance.choice((1, 7, 40, 1000, len(self.unsent)))
        with suppress(BlockingIOError):
            self.unsent = self.unsent[self.socket.send(self.unsent[:size]) :]
        with suppress(BlockingIOError):
            if not self.deaf:
                if not (data := self.socket.recv(65536)):
                    raise ConnectionResetError
                self.hear(data)


def live(chance: random.Random) -> None:
    """One life of a pump."""
    world = World(chance)
    world.start()
    Trace(world.pump).all(chance.random() < 0.3)
    clients: list[Client] = []
    for _ in range(ROUNDS):
        while len(clients) < CLIENTS:
            clients.append(Client(world, chance))
        for client in list(clients):
            try:
                client.act()
                gone = chance.random() < 0.01
            except OSError:
                gone = True
            if gone:
                client.socket.close()
                clients.remove(client)
        world.turn()
        if chance.random() < 0.005:
            world.die(lambda: None)
        if world.paused:
            break
    for client in clients:
        client.socket.close()
    for _ in range(TURNS):
        if not world.pump.connections:
            break
        world.turn()
    assert not world.pump.connections
    world.end()


if __name__ == "__main__":
    repeat(live)
