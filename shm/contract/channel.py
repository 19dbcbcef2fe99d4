"""The control socket as a child of the supervisor uses it; `routerd.supervise.channel` implements it."""

from typing import Protocol

from shm.contract.control import FromChild, ToChild


class Channel(Protocol):
    """A control socket that never blocks. It raises when the supervisor is gone, and that ends the process."""

    def fileno(self) -> int: ...
    def send(self, message: FromChild) -> None: ...
    def receive(self) -> ToChild | None: ...
    def take_descriptors(self) -> list[int]: ...
