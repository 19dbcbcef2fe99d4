"""What the tests of AMQP's rules share: a listener that is narrow in each way, and a scene with several links."""

from collections.abc import Callable

from tests.support.clients.frame_client import FrameClient, disposition, transfer
from tests.support.clients.octets import ACCEPTED, state

CAPACITY = 5  # the link capacity of the narrow listener
WINDOW = 8  # and its sessions' window: frames
SMALLEST = 512  # and its frames' size: the least that AMQP allows
NARROW = f"linkCapacity: {CAPACITY}\n maxSessionFrames: {WINDOW}\n maxFrameSize: {SMALLEST}"

SENDER, BACK, NEIGHBOUR = 0, 1, 2  # handles of a scene's session on channel 0
FREE = 9  # a handle that no link has, and a channel that no session has

Connect = Callable[..., FrameClient]


class Scene:
    """A client with two sessions: two senders and a receiver on channel 0, a sender on channel 1."""

    def __init__(self, connect: Connect, name: str, narrow: bool = True) -> None:
        self.name = name
        self.watcher = connect()
        for handle, suffix in enumerate(("a", "b", "c", "d")):
            self.watcher.receiver(f"{name}.{suffix}", handle, credit=100)
        self.client = connect(2, narrow=narrow)
        self.client.sender(f"{name}.a", SENDER)
        self.client.receiver(f"{name}.back", BACK, credit=1)
        self.client.sender(f"{name}.b", NEIGHBOUR)
        self.client.sender(f"{name}.c", channel=1)

    def passes(self, number: int, watched: int, handle: int = 0, channel: int = 0) -> None:
        """A message of a sender gets through and is settled."""
        self.client.write(transfer(number, channel=channel, handle=handle))
        (arrived,) = self.watcher.take(1, watched)
        self.watcher.write(disposition(arrived["id"], state=state(ACCEPTED)))
        assert self.client.settled(number, number, channel) == [state(ACCEPTED)]
