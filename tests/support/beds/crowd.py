"""A core's control plane among many: what each event costs it."""

from collections.abc import Iterable

import msgspec

from bench import contract as n
from core.addresses.addresses import Identity
from core.interior.network import Network
from core.interior.network_adapter import NetworkAdapter
from shm.contract.control import Setup
from shm.contract.payloads import PAYLOADS
from shm.contract.routing import NetworkSetup
from tests.support.beds.effort import Effort
from tests.support.beds.one_worker import OneWorker

Event = tuple[int, msgspec.Struct]  # a control record of the worker
ARENAS = (32 << 20, 4 << 20)  # the worker's, the core's


class Crowd(OneWorker):
    """A core with one worker. ``costs`` are lines and memory of one event or turn of each kind (effort.py)."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(*ARENAS, setup=setup)
        self.costs: dict[str, float] = {}
        self.now = 0
        self.told: list[msgspec.Struct] = []  # what the core told its worker since somebody took it
        self.sent: list[dict[str, int]] = []  # messages that it has to send, likewise
        if (adapter := self.core.find(NetworkAdapter)) is not None:
            adapter.start(lambda port: Network(Identity(setup.router_id), 1, NetworkSetup(), port))
        self._heard()

    def do(self, events: Iterable[Event]) -> None:
        """Let the events happen one after the other."""
        for kind, payload in events:
            self.say(kind, payload)
            self.core.step(self.now)
            self._heard()

    def count(self, name: str, events: list[Event]) -> None:
        """The same, and note what one of them costs."""
        cost = 0.0
        for kind, payload in events:
            self.say(kind, payload)
            with Effort() as effort:
                self.core.step(self.now)
            cost += effort.count
            self._heard()
        self.costs[name] = cost / len(events)

    def turn(self, name: str, seconds: float) -> None:
        """Note what a turn costs in which nothing happens, so much later."""
        self.core.step(self.now)
        self.now += int(seconds * 1e9)
        with Effort() as effort:
            self.core.step(self.now)
        self._heard()
        self.costs[name] = effort.count

    def _heard(self) -> None:
        """Take all work, and take back the worker's blocks."""
        while (record := self.work.pop()) is not None:
            fields = n.unpack(record)
            if fields["type"] == n.W_RELEASE:
                assert self.arena.free_chain(fields["block"])
            elif fields["type"] == n.W_CONTROL:
                payload = self.core_arena.read(fields["block"])
                if (kind := PAYLOADS.get(fields["state"])) is not None:
                    self.told.append(msgspec.msgpack.decode(payload, type=kind))
                self.act(type=n.A_FREE, arena=1, block=fields["block"])
            elif fields["type"] == n.W_SEND:
                self.sent.append(fields)
        self.work.give_back()
