"""Routers of a simulated network: how they are connected, and one clock for all."""

from bench import contract as n
from bench.contract import C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH
from shm.contract.payloads import ConnectionClosed, ConnectionOpened, Detach
from tests.model.clock import BEGIN
from tests.model.sites import SECTION, Site


def join(
    a: Site, b: Site, cost: int = 1, role: str = "inter-router", product: str = "routerd", offered: tuple[str, ...] = ()
) -> tuple[int, int]:
    """A connection between two routers, which take each other for that product and offer each other those
    capabilities; ``a`` dials."""
    fields = {"role": role, "product": product, "annotations": SECTION, "cost": cost, "offered": list(offered)}
    a.connections += 1
    b.connections += 1
    ends = a.connections, b.connections
    if role == "edge":
        a.edges.add(ends[0])
        b.edges.add(ends[1])
    a.sites[ends[0]], b.sites[ends[1]] = (b, ends[1]), (a, ends[0])
    b.control(C_CONNECTION_OPENED, ConnectionOpened(ends[1], 1, a.name, "host:2", **fields))
    a.control(C_CONNECTION_OPENED, ConnectionOpened(ends[0], 1, b.name, "host:1", connector="c", **fields))
    return ends


def cut(a: Site, b: Site, ends: tuple[int, int]) -> None:
    """The connection is lost: what had not been sent is released, what had been sent is modified."""
    for site, connection in ((a, ends[0]), (b, ends[1])):
        for link in [one for one in site.links.values() if one.connection == connection]:
            if not link.outgoing or link.peer is None:
                continue
            other = link.peer[0]
            for _, handle, settled in link.waiting:
                state = {} if settled else {"state": n.S_RELEASED, "flags": n.F_SETTLED | n.F_UNSENT}
                site.post(type=n.A_DONE if settled else n.A_UPDATE, delivery=handle, **state)
            sent = [d for d in other.incoming.values() if d.link is link.peer[1] and d.origin]
            for delivery in sent:
                site.post(
                    type=n.A_UPDATE, delivery=delivery.origin, state=n.S_MODIFIED, extra=n.D_FAILED, flags=n.F_SETTLED
                )
                delivery.origin = -1
    for site, connection in ((a, ends[0]), (b, ends[1])):
        del site.sites[connection]
        for link in [one for one in site.links.values() if one.connection == connection]:
            site.incoming = {h: d for h, d in site.incoming.items() if d.link is not link}
            link.peer = None
            link.waiting.clear()
            site.gone.add(link.index)
            site.control(C_DETACH, Detach(link.index, 1))
            del site.links[link.index]
        site.control(C_CONNECTION_CLOSED, ConnectionClosed(connection, 1))


class Internet:
    """Routers, and one clock for all."""

    def __init__(self, *names: str, seed: int = 0, kind: type[Site] = Site) -> None:
        self.now = BEGIN
        modes = {True: "edge", False: "interior"}
        self.sites = {name: kind(name, seed, modes[name.startswith("edge")]) for name in names}

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def settle(self) -> None:
        """Until nobody has anything to do."""
        for _ in range(2000):
            busy = False
            for site in self.sites.values():
                site.core.step(self.now)
            for site in self.sites.values():
                busy |= site.read()
            if not busy:
                return
        raise AssertionError("the network never comes to rest")

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.now += 1_000_000_000
            self.settle()
