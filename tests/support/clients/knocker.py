"""A client that connects in a loop: whether a router ever refuses one."""

import socket
import threading
from collections import Counter

from tests.support.running import LONG

HEADER = b"AMQP\x03\x01\x00\x00"


class Knocker(threading.Thread):
    """Connects in a loop and counts what becomes of it."""

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(daemon=True)
        self.outcomes: Counter[str] = Counter()
        self.end = threading.Event()
        self._address = address

    def run(self) -> None:
        while not self.end.wait(0.002):
            self.outcomes[self._attempt()] += 1

    def _attempt(self) -> str:
        try:
            with socket.create_connection(self._address, timeout=LONG) as sock:
                sock.sendall(HEADER)
                return "served" if sock.recv(8) == HEADER else "cut off"
        except OSError as error:
            return type(error).__name__
