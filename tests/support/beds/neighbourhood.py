"""One router and what is around it: the forwarder it tells, neighbours, a clock that is a number."""

from core.addresses.addresses import Identity
from core.interior.advertisement import Advertisement
from core.interior.hello import greeting
from core.interior.linkstate import LinkStateUpdate
from core.interior.message import Control, Fields, decode
from core.interior.network import Network
from core.links.local import MESSAGE_LIMIT
from shm.contract.routing import NetworkSetup

ME = 1_700_000_000


class Port:
    """What the protocol asked of the forwarder."""

    def __init__(self) -> None:
        self.sent: list[tuple[Control, int | None]] = []
        self.routers: dict[int, str] = {}
        self.links: dict[int, int] = {}
        self.paths: dict[int, tuple[int, int, frozenset[int]]] = {}
        self.addresses: dict[tuple[str, int], int] = {}
        self.radius = 0

    def send(self, to: str, content: bytes, neighbour: int | None) -> None:
        control = decode(content)
        assert control.to == to
        assert len(content) <= MESSAGE_LIMIT, "a message that the core drops"
        self.sent.append((control, neighbour))

    def add_router(self, bit: int, router_id: str) -> None:
        assert bit not in self.routers
        self.routers[bit] = router_id

    def remove_router(self, bit: int) -> None:
        del self.routers[bit]
        self.paths.pop(bit, None)
        assert all(router != bit for _, router in self.addresses)

    def clear(self, bit: int) -> bool:
        return True

    def set_link(self, bit: int, neighbour: int) -> None:
        self.links[bit] = neighbour

    def remove_link(self, bit: int) -> None:
        del self.links[bit]

    def set_path(self, bit: int, next_hop: int, cost: int, valid_origins: frozenset[int]) -> None:
        self.paths[bit] = (next_hop, cost, valid_origins)

    def set_radius(self, radius: int) -> None:
        self.radius = radius

    def map_destination(self, key: str, bit: int, treatment: int) -> None:
        self.addresses[key, bit] = treatment

    def unmap_destination(self, key: str, bit: int) -> None:
        del self.addresses[key, bit]

    def take(self, opcode: str = "") -> list[tuple[Control, int | None]]:
        """What was sent since the last time, of one kind or all."""
        sent, self.sent = self.sent, []
        return [(control, to) for control, to in sent if opcode in ("", control.opcode)]


class Alone:
    """A router called A, and what its neighbours say to it."""

    def __init__(self, settings: NetworkSetup | None = None) -> None:
        self.port = Port()
        self.network = Network(Identity("A"), ME, settings or NetworkSetup(), self.port)
        self.now = 1000.0

    def tick(self, seconds: float = 0.0) -> None:
        """Time passes in seconds, with a tick each."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 1.0, end)
            self.network.tick(self.now)
        self.network.tick(self.now)

    def say(self, content: bytes, neighbour: int = 1) -> None:
        self.network.received(neighbour, content, self.now)
        self.network.tick(self.now)

    def hello(self, router: str = "B", *seen: str, instance: int = ME, neighbour: int = 1) -> None:
        self.say(greeting(router, instance, list(seen or ("A",))), neighbour)

    def lsu(self, router: str, seq: int, peers: dict[str, int], instance: int = ME, neighbour: int = 1) -> None:
        self.say(LinkStateUpdate(router, instance, seq, peers).encode("amqp:/_topo/0/A/qdrouter"), neighbour)

    def ra(self, router: str, ls: int, mobile: int = 0, instance: int = ME, neighbour: int = 1) -> None:
        self.say(Advertisement(router, instance, ls, mobile).encode(), neighbour)

    def meet(self, router: str = "B", neighbour: int = 1, cost: int = 1, dialect: str = "routerd") -> None:
        """A neighbour comes up, and tells its links."""
        self.network.neighbour_up(neighbour, cost, dialect)
        self.hello(router, neighbour=neighbour)
        self.lsu(router, 1, {"A": cost}, neighbour=neighbour)
        self.port.take()

    def bit(self, router: str) -> int:
        return next(bit for bit, name in self.port.routers.items() if name == router)

    def way(self, router: str) -> tuple[str, int]:
        next_hop, cost, _ = self.port.paths[self.bit(router)]
        return self.port.routers.get(next_hop, ""), cost

    def keys(self, router: str) -> dict[str, int]:
        return {key: hint for (key, bit), hint in self.port.addresses.items() if bit == self.bit(router)}


def body(control: Control) -> Fields:
    """What a message says."""
    return Fields(control.body)
