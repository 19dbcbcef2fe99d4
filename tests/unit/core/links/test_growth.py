"""What a message of the core's own costs does not grow with those that stuck receivers let wait."""

from bench import contract as n
from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_DETACH
from core.links.local import LENT_TO_ONE
from shm.contract.control import Setup
from shm.contract.payloads import Attach, ConnectionOpened, Detach
from tests.support.beds.crowd import Crowd
from tests.support.beds.effort import Effort

FEW, MANY = 60, 240
FILLING = 20  # receivers whose messages fill the arena
TAKEN = FILLING // 2  # messages that these take while as much room is missing as they want
GROWTH = 1.25
SMALL, LARGE = b"x", b"x" * 1000  # of one block each


class Receivers(Crowd):
    """A core with receivers of the addresses a.0, a.1 and so on, which take a message only when a test lets them."""

    def __init__(self, receivers: int) -> None:
        super().__init__(Setup("core", 1, 1, "/none", "me", "0", 1, [-1]))
        self.do([(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "client", "h:1"))])
        self.do((C_ATTACH, Attach(i, 1, 0, f"l{i}", True, f"a.{i}")) for i in range(receivers))

    def send(self, name: str, receivers: range, content: bytes, times: int = 1) -> None:
        local, cost = self.core.local, 0.0
        for receiver in receivers:
            for _ in range(times):
                with Effort() as effort:
                    assert local.send(f"a.{receiver}", content)
                cost += effort.count
            self.core.step(self.now)
            self._heard()
        self.costs[name] = cost / len(receivers) / times

    def take(self, name: str, count: int) -> None:
        """Let receivers take the first of the messages that they have."""
        cost = 0.0
        for _ in range(count):
            self.act(type=n.A_DONE, delivery=self.sent.pop(0)["peer"])
            with Effort() as effort:
                self.core.step(self.now)
            cost += effort.count
            self._heard()
        self.costs[name] = cost / count


def stuck(receivers: int) -> Receivers:
    """They take none of many messages, and others have all the room that there is for further ones."""
    filling = range(receivers, receivers + FILLING)
    crowd = Receivers(filling.stop)
    crowd.send("message goes", range(receivers), SMALL, LENT_TO_ONE // 2)
    crowd.send("message fills the arena", filling, LARGE, LENT_TO_ONE)
    crowd.send("message finds no room", range(receivers), SMALL)
    crowd.send("message waits", range(receivers), SMALL, LENT_TO_ONE)
    crowd.sent = [one for one in crowd.sent if one["link"] in filling]
    crowd.take("message is taken", TAKEN)
    crowd.count("receiver goes", [(C_DETACH, Detach(i, 1)) for i in range(receivers)])
    crowd.sent = [one for one in crowd.sent if one["link"] in filling]
    crowd.take("message of others is taken", FILLING * LENT_TO_ONE - TAKEN)
    assert len(crowd.core.local) == 0
    return crowd


def waiting(messages: int) -> Receivers:
    """So many messages wait for one receiver, which goes."""
    crowd = Receivers(1)
    crowd.send("message waits", range(1), SMALL, messages)
    assert len(crowd.core.local) == messages
    crowd.count("receiver goes", [(C_DETACH, Detach(0, 1))])
    assert len(crowd.core.local) == 0
    return crowd


def test_messages_cost_as_much_among_many() -> None:
    for many in (stuck, waiting):
        few, more = many(FEW).costs, many(MANY).costs
        assert {name: (few[name], cost) for name, cost in more.items() if cost > few[name] * GROWTH} == {}
