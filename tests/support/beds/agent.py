"""An agent beside a core, driven by hand."""

from collections.abc import Sequence
from typing import Any

import msgspec

from bench import contract
from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from core.links.link import Link
from core.management.agent import Agent
from core.management.request import request_of
from core.management.view import View
from core.process.router import Core
from routerd.config import parse
from routerd.config.entities.routing import LinkRoute
from routerd.translate.routing import routing
from routerd.translate.setup import link_route_setup
from routerd.translate.tables import tables
from shm.contract.control import AddressSetup, Setup
from shm.contract.payloads import Attach, ConnectionOpened, SeenLink
from shm.memory import segment
from tests.support.beds.keeper import Keeper

CONFIG = """
router {
 id: me
}
listener {
 host: 127.0.0.1
 port: 0
 name: here
}
sslProfile {
 name: secure
 password: tell-nobody
}
address {
 prefix: news
 distribution: multicast
 name: wide
}
"""


class Bed:
    """An agent beside a core with one worker, whose connection 4 has a sender and a receiver."""

    def __init__(self, segments: segment.Segments, more: str = "", started: int = 0, generation: int = 1) -> None:
        config = parse(CONFIG + more, "test.conf")
        self.keeper = Keeper(config)
        news = AddressSetup(prefix="news", distribution="multicast")
        setup = Setup(
            "core", 1, generation, "/none", "me", "0.1", 1, [-1],
            started=started, addresses=[news], management=self.keeper.management(), tables=tables(config),
            routing=routing(config, self.keeper.identities),
            link_routes=[link_route_setup(one) for one in config.of(LinkRoute)],
        )  # fmt: skip
        self.core = Core(setup, segments, b"seed")
        self.arena = contract.ArenaOwner(segments.arenas[0])
        self.core_arena = contract.Arena(segments.arenas[1])
        self.actions = contract.Producer(segments.rings, contract.action_ring_offset(0))
        self.work = contract.Consumer(segments.rings, contract.work_ring_offset(0))
        self.seen: dict[int, SeenLink] = {}
        self.asked: list[list[int]] = []
        self.ways_given = 0
        view = View(self.core, lambda action: action(), self.keeper.change, self.look, self.give_way)
        self.keeper.agent = self.agent = Agent(view)
        self.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "box", "10.0.0.1:99", number=4))
        self.say(C_ATTACH, Attach(0, 1, 0, "to", False, "news.uk"))
        self.say(C_ATTACH, Attach(1, 1, 0, "from", True, "news.uk"))
        self.core.step(1)
        self.heard()

    def say(self, kind: int, payload: msgspec.Struct) -> None:
        block = self.arena.write(msgspec.msgpack.encode(payload))
        assert block is not None
        record = contract.pack(type=contract.A_CONTROL, state=kind, arena=0, block=block)
        assert self.actions.push(record)
        self.actions.publish()

    def look(self, links: Sequence[Link]) -> dict[int, SeenLink]:
        self.asked.append([link.identity for link in links])
        return self.seen

    def give_way(self) -> None:
        self.ways_given += 1

    def heard(self) -> list[dict[str, int]]:
        return [contract.unpack(record) for record in iter(self.work.pop, None)]

    def ask(self, operation: str, body: Any = None, **properties: Any) -> tuple[int, Any]:
        properties = {"operation": operation, "type": "org.amqp.management", "name": "self"} | properties
        known = {key: value for key, value in properties.items() if value is not None}
        response = self.agent.handle(request_of(known, body))
        return response.status, response.body

    def crud(self, operation: str, body: Any = None, **properties: Any) -> tuple[int, Any]:
        return self.ask(operation, body, **({"type": None, "name": None} | properties))

    def query(self, entity_type: str, *names: str, **properties: Any) -> list[dict[str, Any]]:
        status, body = self.ask("QUERY", {"attributeNames": list(names)}, entityType=entity_type, **properties)
        assert status == 200, body
        return [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]
