"""Whatever a management agent is asked: it answers, passes on, or drops and counts.

The first octet says whether the request is for another router's agent.
"""

import os
import threading
from typing import Any

import msgspec
from proton import Data

from core.management.request import Requester
from core.management.service import Service
from core.process.router import Core
from routerd.config import default_config
from routerd.translate.identities import Identities
from routerd.translate.management import management
from shm.contract.administering import READ
from shm.contract.control import Setup
from shm.memory import segment

FAR = "_topo/0/far/$management"
PATIENCE_S = 10


class Tried(Service):
    """It says what becomes of each request."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, lambda _: None)
        self.requester = Requester(management=READ)
        self.posted, self.finished = threading.Event(), threading.Semaphore(0)
        self.outcomes = 0
        self.failed: BaseException | None = None

    def _requester(self, source: tuple[int, int, int] | None) -> Requester:
        return self.requester

    def _post(self, action: Any) -> None:
        self.outcomes += 1
        super()._post(action)
        self.posted.set()

    def _passed_on(self, text: str, content: bytes) -> bool:
        assert text.encode() in content
        while content:
            content = content[Data().decode(content) :]  # section by section: not each is a value of Python's engine
        self.outcomes += 1
        return True

    def _answer(self, content: bytes, requester: Requester) -> None:
        before = self.outcomes
        try:
            super()._answer(content, requester)
            assert self.outcomes > before, "nothing became of the request"
        except BaseException as error:
            self.failed = error
        self.finished.release()
        self.posted.set()


def service() -> Tried:
    segments = segment.create(segment.segment_prefix("fuzz-management", os.getpid()), 1, 4)
    segments.unlink()  # they last as long as this process
    setup = Setup("core", 1, 1, "/none", "me", "0", 1, [-1], management=management(default_config(), Identities()))
    return Tried(Core(setup, segments, b"seed"))


SERVICE = service()


def one(octets: bytes) -> None:
    led = FAR if octets[:1] > b"\x7f" else ""
    SERVICE.requester = msgspec.structs.replace(SERVICE.requester, led=led)
    SERVICE.received(octets[1:])
    while not SERVICE.finished.acquire(blocking=False):
        assert SERVICE.posted.wait(PATIENCE_S), "the request hangs"
        SERVICE.posted.clear()
        SERVICE.step()
    SERVICE.step()
    if SERVICE.failed is not None:
        raise SERVICE.failed
