"""A delivery on its way to a hand-driven client."""

from functools import cached_property
from typing import Any

from proton import Delivery, Message


class Arrived:
    """A delivery on its way in or here; ``data`` are its bytes so far."""

    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.data = bytearray()
        self.complete = self.aborted = self.abandoned = False

    @cached_property
    def message(self) -> Message:
        assert self.complete
        message = Message()
        message.decode(bytes(self.data))
        return message

    @property
    def body(self) -> Any:
        """Binary bodies are views of the message's memory, which nobody must keep longer than the message."""
        body = self.message.body
        return bytes(body) if isinstance(body, memoryview) else body

    def settle(self, state: int = Delivery.ACCEPTED) -> None:
        """Settle with an outcome; of what comes after that the engine tells nothing."""
        self.abandoned = not self.complete
        self.delivery.update(state)
        self.delivery.settle()
