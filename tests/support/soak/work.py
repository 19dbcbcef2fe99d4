"""What clients do in a soak, each in a process of its own until it is told to end."""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Event
from typing import Final

from tests.support.clients.frame_client import EndedError, FrameClient, flow, message, transfer
from tests.support.clients.octets import CLOSE, END, said
from tests.support.clients.rmr import Application

Place = tuple[str, int]
LOST = (OSError, EOFError, EndedError)  # a router was hurt, and the client begins anew
NAMES: Final = 20_000  # addresses that clients choose from
AGAIN: Final = 0.1  # seconds until a client that lost its connection dials again
LARGE: Final = 8_000_000  # octets of a large message
PIECE: Final = 16_000  # octets of it in a TRANSFER


class Work:
    """A client's own chances, and what it counts."""

    def __init__(self, places: list[Place], seed: int, end: Event) -> None:
        self.places, self.end = places, end
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.counted: Counter[str] = Counter()

    def place(self) -> Place:
        return self.chance.choice(self.places)

    def address(self) -> str:
        kind = self.chance.choice(("closest", "balanced", "multicast", "other"))
        return f"{kind}/{self.chance.randrange(NAMES)}"


def churn(work: Work) -> None:
    """Connections with links on any addresses, which send a little, and end in each way that there is."""
    with FrameClient(work.place(), f"churn-{work.chance.randrange(1000)}") as client:
        client.begin(0)
        pairs = work.chance.randrange(1, 30)
        for number in range(pairs):
            address = work.address()
            client.receiver(address, 2 * number, credit=work.chance.randrange(1, 20))
            client.sender(address, 2 * number + 1)
            client.write(transfer(number, message("churn"), handle=2 * number + 1, settled=True))
        work.counted["links"] += 2 * pairs
        how = work.chance.randrange(3)
        if how == 0:
            client.write(said(END, 0))
        elif how == 1:
            client.write(said(CLOSE))
            client.end_of_connection()  # with a condition if a worker that is replaced closes it as well
    work.counted["connections"] += 1


def stall(work: Work) -> None:
    """A receiver that takes what it has credit for and settles nothing, and a sender that keeps at it."""
    name = f"balanced/stalled-{work.chance.randrange(10)}"
    with FrameClient(work.place(), "stalled") as slow, FrameClient(work.place(), "eager") as eager:
        slow.begin(0)
        slow.receiver(name, credit=10)
        eager.begin(0)
        credit = min(200, eager.sender(name)["credit"])
        eager.write(*(transfer(number, message(f"{name} {number}")) for number in range(credit)))
        slow.take(10)
        work.counted["stalls"] += 1
        work.end.wait(work.chance.uniform(1, 10))


def large(work: Work) -> None:
    """A message of many frames from one router to another, to a receiver that reads it, or goes in the middle."""
    name = f"closest/large-{work.chance.randrange(1000)}"
    goes = work.chance.random() < 0.3
    with FrameClient(work.place(), "large-receiver") as to, FrameClient(work.place(), "large-sender") as at:
        to.begin(0, in_window=16)
        to.receiver(name, credit=1)
        at.begin(0)
        at.sender(name)
        body = os.urandom(1) * LARGE
        whole = b"\0\x53\x75\xb0" + len(body).to_bytes(4) + body
        pieces = [whole[first : first + PIECE] for first in range(0, len(whole), PIECE)]
        got = 0
        for number, piece in enumerate(pieces):
            at.write(transfer(None if number else 0, piece, settled=True, more=number + 1 < len(pieces)))
            while got <= number - 8:
                frame = to.frames(1)[0]
                got += 1
                if got % 8 == 0:
                    to.write(flow(next_in=got, in_window=16))
                if frame["aborted"] or (goes and got > 100):
                    work.counted["large messages cut off"] += 1
                    return
        work.counted["large messages"] += 1


def rmr(work: Work) -> None:
    """Applications that connect to a route table, send messages of all its types, and go."""
    with Application() as application:
        links = [application.connect(work.place()) for _ in range(work.chance.randrange(1, 5))]
        for link in links:
            for _ in range(50):
                application.send_on(link, work.chance.randrange(1, 1100), b"soak", transaction=b"soak")
            work.counted["RMR messages"] += 50
        for link in links:
            link.close()


def keep_on(what: Callable[[Work], None], work: Work) -> None:
    """Do it again and again until the end; a lost connection is not the end."""
    while not work.end.is_set():
        try:
            what(work)
        except LOST as error:
            work.counted[f"begun anew: {type(error).__name__}"] += 1
            time.sleep(AGAIN)
        work.end.wait(work.chance.uniform(0, 0.05))
