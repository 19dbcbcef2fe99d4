"""A router with a broker that answers attaches when it is told to, and clients."""

from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_DETACH
from core.link_routes.ends import Ends
from shm.contract.control import LinkRouteSetup, Setup
from shm.contract.payloads import Attach, Attached, ConnectionOpened, Detach, OpenLink, Termini, Terminus
from tests.support.beds.crowd import Crowd

BROKER, FIRST, SECOND = 3, 7, 8  # connections
FAR = 1 << 20  # the first link at the broker


class Bed(Crowd):
    """A router with a broker, which answers when it is told to, and clients."""

    def __init__(self) -> None:
        brokers = {"queue": "broker", "slow": "elsewhere", "good": "elsewhere", "third": "third"}
        routes = [LinkRouteSetup(False, prefix=prefix, container=name) for prefix, name in brokers.items()]
        super().__init__(Setup("core", 1, 1, "/none", "me", "0", 1, [-1], link_routes=routes))
        self.links = 0
        self.ends = self.core.plane(Ends)
        self.connect(BROKER, "route-container", "broker")
        self.connect(FIRST)
        self.connect(SECOND)

    def connect(self, number: int, role: str = "normal", container: str = "client") -> None:
        opened = ConnectionOpened(number, 1, container, f"h:{number}", role=role, number=number)
        self.do([(C_CONNECTION_OPENED, opened)])

    def attach(self, number: int, client: int = FIRST, properties: bytes = b"", address: str = "queue.a") -> list[int]:
        """So many links; return them."""
        links = list(range(self.links, self.links + number))
        self.links += number
        termini = Termini(Terminus(2, address), Terminus(2, address), properties)
        self.do((C_ATTACH, Attach(i, 1, client, f"l{i}", False, address, termini=termini)) for i in links)
        return links

    def detach(self, links: list[int]) -> None:
        self.do((C_DETACH, Detach(link, 1)) for link in links)

    def asked(self) -> list[OpenLink]:
        """What the broker is to answer now, which nobody has taken yet."""
        found = [one for one in self.told if isinstance(one, OpenLink)]
        self.told.clear()
        return found

    def answer(self, asked: OpenLink) -> None:
        far = FAR + asked.request % FAR
        end = Attach(
            far, 1, BROKER, asked.name, asked.outgoing, "queue.a", request=asked.request, termini=asked.termini
        )
        self.do([(C_ATTACH, end)])

    def refused(self) -> list[tuple[int, str]]:
        """Links that were refused, and why."""
        found = [(one.link, one.error.condition) for one in self.told if isinstance(one, Attached) and one.error]
        self.told.clear()
        return found
