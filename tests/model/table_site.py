"""A simulated router with a route table: clients that send with keys, endpoints that receive."""

from collections import Counter
from typing import Any

import msgspec

from bench import contract as n
from bench.contract import C_ATTACHED, C_DETACH, C_ENDPOINT
from core.rmr.active.intake import Outcome
from core.rmr.active.route_tables import ActiveTable, RouteTables
from shm.contract.control import SetTables, WorkerGone
from shm.contract.payloads import Attached, Detach, Endpoint
from shm.contract.tables import TableSetup
from tests.model.clock import BEGIN
from tests.model.sites import Packet, Site, SiteLink
from tests.support.values.states import condition_of


class TableSite(Site):
    """One router, whose table is called ``routes``."""

    def __init__(self, **setup: Any) -> None:
        self.to_table: dict[int, bool] = {}  # by link: what its worker was told
        self.endpoints: list[Endpoint] = []  # what that was told of connections
        self.detached: list[int] = []
        self.reasons: dict[int, str] = {}  # by message: the condition it was rejected with
        super().__init__("me", mode="standalone")
        self.now = BEGIN
        self.setup = TableSetup("routes", "routes", **setup)
        self.core.configure(SetTables([self.setup]))
        self.settle_all()

    @property
    def active(self) -> ActiveTable:
        found = self.core.plane(RouteTables).find("routes")
        assert found is not None
        return found

    def settle_all(self) -> None:
        """Until nobody has anything to do."""
        self.core.step(self.now)
        while self.read():
            self.core.step(self.now)

    def table(self, text: str, origin: str = "test") -> list[Outcome]:
        """Give it a text; what became of it."""
        found: list[Outcome] = []
        self.core.plane(RouteTables).take(self.active.feed(origin, found.extend), text, last=True)
        self.settle_all()
        return found

    def sender(self) -> SiteLink:
        link = self.attach(False, "routes")
        self.settle_all()
        assert link.open
        assert self.to_table[link.index]
        return link

    def receiver(self, name: str, **fields: Any) -> SiteLink:
        link = self.attach(True, f"routes/{name}", **fields)
        self.settle_all()
        assert link.open
        return link

    def post_with_key(self, link: SiteLink, packet: Packet, mt: int, sid: int, meid: str, source: str) -> None:
        """A message with its key, as a worker tells of it; MT below 0 is none."""
        text = meid.encode() + bytes([len(source)]) + source.encode()
        self._key = {
            "state": 0 if mt < 0 else 1,
            "delivery": (mt & 0xFFFFFFFF) | (sid & 0xFFFFFFFF) << 32,
            "extra": len(meid.encode()) << 32,
            "credit": len(meid.encode()) + 1 if source else 0,
        }
        self.send(link, Packet(packet.number, payload=text, settled=packet.settled))
        self._key = {}

    _key: dict[str, int] = {}  # noqa: RUF012 - of the message being posted

    def post(self, **fields: int) -> None:
        super().post(**fields, **(self._key if fields["type"] == n.A_DELIVER else {}))

    def give(
        self,
        link: SiteLink,
        number: int,
        mt: int,
        sid: int = -1,
        meid: str = "",
        source: str = "",
        settled: bool = False,
    ) -> None:
        self.post_with_key(link, Packet(number, settled=settled), mt, sid, meid, source)
        self.settle_all()

    def _told(self, kind: int, payload: bytes) -> None:
        if kind == C_ENDPOINT:
            self.endpoints.append(msgspec.msgpack.decode(payload, type=Endpoint))
            return
        if kind == C_ATTACHED:
            attached = msgspec.msgpack.decode(payload, type=Attached)
            self.to_table[attached.link] = attached.to_table
        if kind == C_DETACH:
            detach = msgspec.msgpack.decode(payload, type=Detach)
            self.detached.append(detach.link)
            self.control(C_DETACH, Detach(detach.link, 1))
            return
        super()._told(kind, payload)

    def _outcome(self, r: dict[str, int]) -> None:
        delivery = self.incoming.get(r["delivery"])
        if delivery is not None and r["extra"] & n.D_PAYLOAD:
            self.reasons[delivery.packet.number] = condition_of(self.views[r["arena"]].read(r["block"]))
            self.post(type=n.A_FREE, arena=r["arena"], block=r["block"])
        super()._outcome(r)

    def die(self) -> None:
        """The worker dies; its successor has nothing yet."""
        self.core.worker_gone(WorkerGone(0, 1), self.now)
        self.links.clear()
        self.settle_all()


def got(link: SiteLink) -> list[int]:
    """Numbers of the messages that a receiver has."""
    return [packet.number for packet in link.got]


def shares(*links: SiteLink) -> Counter[int]:
    """How many each has."""
    return Counter({at: len(link.got) for at, link in enumerate(links)})
