"""Clients that keep ledgers, at two routers of a network."""

from tests.support.clients.ledger import Clients, check
from tests.support.routers.members import Member
from tests.support.running import LONG, until

GET_ON = 20  # messages accepted to each sender after each thing that happens


class Load:
    """Messages from one router to another on some addresses, and on others back. A context: the ledgers are
    checked at its end."""

    def __init__(self, here: Member, there: Member, forth: list[str], back: list[str] | None = None) -> None:
        back = back or []
        self.senders = len(forth) + len(back)
        ends = [(here, forth, back), (there, back, forth)]
        self.clients = [
            Clients(
                f"amqp://{member.host}:{member.port}",
                [[f"receive={name}" for name in receives] + [f"send={name}" for name in sends]],
            )
            for member, sends, receives in ends
        ]

    def accepted(self) -> dict[str, int]:
        """How many messages of each sender have been accepted so far."""
        counts: dict[str, int] = {}
        for one in self.clients:
            counts |= one.accepted()
        return counts

    def get_on(self) -> None:
        """More messages are accepted to each sender."""
        while len(before := self.accepted()) < self.senders:
            pass

        def more() -> bool:
            now = self.accepted()
            return all(now.get(name, 0) >= count + GET_ON for name, count in before.items())

        until(more, "more messages accepted", 2 * LONG)  # a router starts, and others learn of it, meanwhile

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        try:
            if kind is None:
                for one in self.clients:
                    one.stop()
                check([ledger for one in self.clients for ledger in one.close()], at_least=2 * GET_ON)
        finally:
            for one in self.clients:
                one.__exit__(kind, *error)
