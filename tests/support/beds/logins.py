"""Logins of a worker, with a library and a clock that the test plays."""

import time
from typing import Any

import pytest

from shm.contract.control import ListenerSetup
from workers.control import logins as subject
from workers.control.cyrus import Said
from workers.control.logins import Logins

QUESTION = Said(1, b"what?", "")


class Home:
    """A worker around its logins; `answers` is what Cyrus SASL says, in the order of the questions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: str = "") -> None:
        self.now = 100.0
        self.denied: set[int] = set()
        self.counts: list[str] = []
        self.done: list[tuple[Any, ...]] = []
        self.offered: dict[int, str] = {}
        self.closed = 0
        self.answers: dict[bytes, Said | BaseException] = {}
        self.logins = Logins(self, self, directory, "r", lambda: self.now, lambda *_: self)  # type: ignore[arg-type, return-value]  # as much of it as is used
        monkeypatch.setattr(subject, "Exchange", lambda _: self)
        self.logins.serve(0, listener("PLAIN"))

    def mechanisms(self) -> list[str]:
        return ["ANONYMOUS", "EXTERNAL", "GSSAPI", "PLAIN", "SCRAM-SHA-256"]

    def start(self, mechanism: str, said: bytes) -> Said:
        return self.step(said)

    def step(self, said: bytes) -> Said:
        answer = self.answers.get(said, Said(-13, b"", "alice", "wrong"))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1

    def peer(self, index: int) -> str:
        return f"10.0.0.{index // 1000}:{index}"

    def count(self, name: str) -> None:
        self.counts.append(name)

    def offer(self, place: int, mechanisms: str) -> None:
        self.offered[place] = mechanisms

    def wake_by(self, fd: int) -> None:
        pass

    def challenge(self, index: int, generation: int, said: bytes) -> None:
        self.done.append(("challenge", index, said))

    def admit(self, index: int, generation: int, user: str) -> None:
        self.done.append(("admit", index, user))

    def deny(self, index: int, generation: int) -> None:
        self.done.append(("deny", index))

    def refuse(self, index: int, generation: int, for_now: bool) -> None:
        self.done.append(("refuse", index))

    def say(self, index: int, said: bytes = b"") -> None:
        self.logins.said((index, 1), "PLAIN", said)

    def until(self, count: int) -> None:
        """Steps until so many logins are answered, or denied later."""
        for _ in range(10_000):
            self.logins.step()
            if len(self.done) + len(self.logins._denials) >= count:
                return
            time.sleep(0.001)
        raise AssertionError(self.done)


def listener(mechanisms: str, **more: Any) -> ListenerSetup:
    return ListenerSetup("l", [], sasl_mechanisms=mechanisms, **more)
