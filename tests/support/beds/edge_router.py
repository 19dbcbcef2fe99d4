"""The core of an edge router, whose interior routers and client a test plays."""

from typing import Any

from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from core.edge.uplink import Uplink
from shm.contract.control import Setup
from shm.contract.payloads import Attach, ConnectionOpened, OpenLink
from tests.support.beds.crowd import Crowd

UPLINKS = 50_000  # connections and links from here on are those to interior routers
CLIENT = 1  # a connection


class EdgeRouter(Crowd):
    """An edge router, whose interior router attaches each link that it is asked for, and a client of it."""

    def __init__(self) -> None:
        super().__init__(Setup("core", 1, 1, "/none", "me", "0", 1, [-1], mode="edge"))
        self.links: dict[int, OpenLink] = {}  # to interior routers, by index
        self.uplink = self.core.plane(Uplink)
        self.do([(C_CONNECTION_OPENED, ConnectionOpened(CLIENT, 1, "client", "h:1", number=CLIENT))])

    def open(self, connection: int) -> tuple[int, ConnectionOpened]:
        return C_CONNECTION_OPENED, ConnectionOpened(connection, 1, "interior", "h:2", role="edge", number=connection)

    def answer(self) -> list[tuple[int, Attach]]:
        """The answers of an interior router to all that it has been asked for."""
        asked, self.told = [one for one in self.told if isinstance(one, OpenLink)], []
        answers = []
        for one in asked:
            index = UPLINKS + len(self.links)
            self.links[index] = one
            address = one.target if one.outgoing else one.source
            link: dict[str, Any] = {"request": one.request, "router_initiated": True}
            answers.append((C_ATTACH, Attach(index, 1, one.connection, one.name, one.outgoing, address, **link)))
        return answers

    def find(self, address: str) -> int:
        return next(index for index, one in self.links.items() if one.target == address)

    def lookups(self) -> int:
        return len(self.uplink.lookup._waiting)


def client(number: int, outgoing: bool, address: str) -> tuple[int, Attach]:
    return C_ATTACH, Attach(number, 1, CLIENT, f"l{number}", outgoing, address)
