"""A client that behaves well beside one that does not."""

from typing import Self

from proton import Message

from tests.support.peer import ACCEPTED, Net


class Bystander:
    """A well-behaved sender and receiver, each on a connection of its own."""

    def __init__(self, net: Net, name: str) -> None:
        self.net, self.number = net, 0
        self.to, self.at = net.peer(), net.peer()
        self.receiver = self.at.receiver(name, 100)
        self.sender = self.to.ready_sender(name)

    def goes_on(self) -> Self:
        """A message gets through and is settled."""
        self.number += 1
        sent = self.net.send(self.sender, Message(body=self.number))
        (got,) = self.at.take(self.receiver)
        assert got.body == self.number
        got.settle()
        assert self.net.settled(sent) == [ACCEPTED]
        self.receiver.flow(1)
        return self
