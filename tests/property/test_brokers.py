"""The next broker, or the next router with one, for a link route: compared with a plain model that sorts them all."""

from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from core.link_routes.ends import Ends
from core.link_routes.routes import Host, Route, Routes
from shm.contract.payloads import ConnectionOpened

IDENTITIES = ["one", "two"]
hosts = st.tuples(st.integers(0, 2), st.integers(0, 4))
routers = st.integers(1, 4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("serves"), hosts, st.sampled_from(IDENTITIES)),
        st.tuples(st.just("serves no more"), hosts, st.sampled_from(IDENTITIES)),
        st.tuples(st.just("is lost"), hosts, st.none()),
        st.tuples(st.just("other router"), routers, st.booleans()),
        st.tuples(st.just("path"), routers, hosts),
        st.tuples(st.just("choose"), hosts, st.integers(1, 5)),
    ),
    max_size=60,
)


class World:
    """Brokers, routers and paths to them; ``turn`` is the plain model's."""

    def __init__(self) -> None:
        self.routes = Routes()
        self.there: dict[Host, ConnectionOpened] = {}
        self.paths: dict[int, tuple[int, ConnectionOpened]] = {}
        base: Any = SimpleNamespace(forwarder=None, connections=self, setup=None)
        self.ends: Any = Ends.__new__(Ends)
        self.ends._base, self.ends._find, self.ends._path_to = base, self.find, self.paths.get
        self.routes._route("Dq").wanted.add("configured")
        self.turn = 0

    def find(self, worker: int, index: int) -> ConnectionOpened | None:
        return self.there.get((worker, index))

    @property
    def route(self) -> Route:
        route = self.routes.known("Dq")
        assert route is not None
        return route

    def expected(self, origin: Host) -> tuple[int, ConnectionOpened, bool] | None:
        brokers, others = sorted(self.route.hosts), sorted(self.route.remotes)
        for at in range(len(brokers)):
            host = brokers[(self.turn + at) % len(brokers)]
            if host in self.there:
                self.turn += at + 1
                return host[0], self.there[host], True
        for at in range(len(others)):
            path = self.paths.get(others[(self.turn + at) % len(others)])
            if path is not None and (path[0], path[1].connection) != origin:
                self.turn += at + 1
                return *path, False
        return None


def opened(host: Host) -> ConnectionOpened:
    return ConnectionOpened(host[1], 1, "c", "h:1", number=10 * host[0] + host[1] + 1)


@settings(max_examples=300, deadline=None)
@given(steps=steps)
def test_the_choice_is_that_of_a_sorted_list(steps: list[tuple[str, Any, Any]]) -> None:
    world = World()
    for what, which, more in steps:
        match what:
            case "serves":
                world.there[which] = opened(which)
                world.routes._add_host(world.route, which, more)
            case "serves no more":
                world.routes._drop_host(world.route, which, more)
            case "is lost":  # the route still has it for some turns
                world.there.pop(which, None)
            case "other router" if more:
                world.routes.map("Dq", which)
            case "other router":
                world.routes.unmap("Dq", which)
            case "path":
                world.paths[which] = more[0], opened(more)
            case "choose":
                for _ in range(more):
                    assert world.ends._choose(world.route, which) == world.expected(which)
                    assert world.route.turn == world.turn
