"""Requests with changed bytes for a management service: each is answered, passed on or dropped and counted.

Run as `python management_victim.py SEED NUMBER FILE`; FILE has the request that is being tried.
"""

import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from proton import Message, symbol

from core.management.request import Requester
from core.management.service import Service
from core.process.router import Core
from routerd.config import default_config
from routerd.translate.identities import Identities
from routerd.translate.management import management
from shm.contract.administering import READ
from shm.contract.control import Setup
from shm.contract.management import PREFIX
from shm.contract.sections import SECTIONS
from shm.memory import segment

FAR = "_topo/0/far/$management"
AT_ONCE = 100
CODES = bytes.fromhex(
    "00404142434445505152535455566061707172737480818283849498a0a1a3b0b1b3c0c1d0d1e0f0707172737475767778"
)
PARTS = (
    bytes.fromhex("f00000000d00009402710000000100000002"),  # an array with less than it claims
    bytes.fromhex("f0000000090000000275"),
    bytes.fromhex("e00903a3016101620163"),
    bytes.fromhex("84747970653a13736f"),  # a decimal64
    bytes.fromhex("73ffffffff"),  # no character
    bytes.fromhex("0053750045"),
    *(b"\x00\xa3" + bytes((len(name),)) + name.encode() for name in SECTIONS),
)


def requests() -> Iterator[bytes]:
    """Such as tools send."""
    for operation, more, body in (
        ("QUERY", {"entityType": f"{PREFIX}router.link"}, {"attributeNames": ["name", "linkDir"]}),
        ("QUERY", {"entityType": "listener", "count": 1, "offset": 0}, {"attributeNames": [symbol("x")]}),
        ("READ", {"type": "router", "identity": 1}, {}),
        ("UPDATE", {"type": "router.link", "name": "x"}, {"adminStatus": "deleted", "n": [1, 2.5, b"x"]}),
        ("GET-LOG", {"limit": 5}, None),
    ):
        message = Message(reply_to="back", address=FAR, correlation_id="c", body=body)
        message.properties = {"operation": operation, **more}
        message.annotations = {symbol("x-opt-a"): 1}
        yield bytes(message.encode())


class Tried(Service):
    """It says what becomes of each request."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, lambda _: None)
        self.requester = Requester(management=READ)
        self.posted, self.finished = threading.Event(), threading.Semaphore(0)
        self.outcomes, self.answered = 0, 0
        self.failed: list[str] = []

    def _requester(self, source: tuple[int, int, int] | None) -> Requester:
        return self.requester

    def _reply(self, *response: Any) -> None:
        self.answered += 1
        super()._reply(*response)

    def _post(self, action: Any) -> None:
        self.outcomes += 1
        super()._post(action)
        self.posted.set()

    def _passed_on(self, text: str, content: bytes) -> bool:
        Message().decode(content)
        assert text.encode() in content
        self.outcomes += 1
        return True

    def _answer(self, content: bytes, requester: Requester) -> None:
        before = self.outcomes
        try:
            super()._answer(content, requester)
            if self.outcomes == before:
                self.failed.append(f"{content.hex()}: nothing became of it")
        except Exception as error:
            self.failed.append(f"{content.hex()}: {error!r}")
        self.finished.release()
        self.posted.set()


def changed(chance: random.Random, whole: bytes) -> bytes:
    """With some bytes changed, cut out or put in."""
    content = bytearray(whole)
    for _ in range(chance.choice((0, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(content) + 1)
        match chance.randrange(5):
            case 0:
                content[at : at + 1] = bytes((chance.choice(CODES),))
            case 1:
                content[at : at + 1] = bytes((chance.randrange(256),))
            case 2:
                del content[at : at + chance.randint(1, 4)]
            case 3:
                content[at:at] = chance.choice(PARTS)
            case 4:  # in place of the body, so that all before it is right
                body = content.find(b"\x00\x53\x77") + 3
                content[body:] = chance.choice(PARTS)
    return bytes(content)


def main(seed: int, number: int, trace: Path) -> str:
    chance = random.Random(seed)  # noqa: S311  a failure must come again with its seed
    segments = segment.create(segment.segment_prefix("fuzz-management", os.getpid()), 1, 4)
    try:
        setup = Setup("core", 1, 1, "/none", "me", "0", 1, [-1], management=management(default_config(), Identities()))
        core = Core(setup, segments, b"seed")
        service = Tried(core)
        whole = list(requests())
        with trace.open("wb", buffering=0) as file:
            for _ in range(number // AT_ONCE):
                led = chance.choice(("", FAR))
                service.requester = msgspec.structs.replace(service.requester, led=led)
                for _ in range(AT_ONCE):
                    content = changed(chance, chance.choice(whole))
                    file.write(content.hex().encode() + b"\n")
                    service.received(content)
                left = AT_ONCE
                while left:
                    service.posted.wait(10)
                    service.posted.clear()
                    service.step()
                    while service.finished.acquire(blocking=False):
                        left -= 1
        assert not service.failed, service.failed[:5]
        return f"{number} requests, {service.answered} answers"
    finally:
        segments.unlink()


if __name__ == "__main__":
    print(main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
