"""The table of link routes: what comes and goes beside a route leaves it as it is."""

import pytest

from core.link_routes.routes import Routes
from shm.contract.control import LinkRouteSetup, SetLinkRoutes
from shm.contract.payloads import ConnectionOpened

CLIENT, BROKER = (0, 3), (0, 7)


def connected(routes: Routes, container: str = "b", connection: int = BROKER[1]) -> None:
    opened = ConnectionOpened(connection, 1, container, "h:1", role="route-container")
    routes.opened(BROKER[0], opened)


def configured(*setups: LinkRouteSetup) -> Routes:
    routes = Routes()
    routes.configure(SetLinkRoutes(list(setups)))
    connected(routes)
    return routes


def hosts(routes: Routes, address: str) -> list[tuple[int, int]]:
    """The connections that serve an address."""
    found = routes.find(address, False)
    return [] if found is None else list(found.hosts)


@pytest.mark.parametrize("pattern", ["a/b.#", "a/b/#", "/a.b.#", "amqp:/a/b.#"])
def test_another_spelling_of_a_route_leaves_it_where_it_was(pattern: str) -> None:
    """A client's own route has the addresses of a configured one while it lasts; then they are that one's again."""
    routes = configured(LinkRouteSetup(False, "a.b", container="b"))
    offer = routes.offer(CLIENT, None, pattern, False, "c")
    routes.withdraw(offer)
    assert hosts(routes, "a.b.x") == [BROKER]


def test_of_two_spellings_either_may_go_first() -> None:
    dots, slashes = LinkRouteSetup(False, "a.b", container="b"), LinkRouteSetup(False, "a/b", container="b")
    for left in (dots, slashes):
        routes = configured(dots, slashes)
        routes.configure(SetLinkRoutes([left]))
        assert hosts(routes, "a.b.x") == [BROKER]
        routes.configure(SetLinkRoutes([]))
        assert routes.find("a.b.x", False) is None


def test_a_route_that_is_configured_no_more_takes_its_prefixes_along() -> None:
    """Others may want the same route: another entity, a client, a router."""
    plain = LinkRouteSetup(False, "a", container="b", add_prefix="plain/")
    routes = configured(plain, LinkRouteSetup(False, "a", container="other", add_prefix="other/"))
    routes.map("Ca", 5)
    routes.configure(SetLinkRoutes([plain]))
    found = routes.known("Ca")
    assert found is not None
    assert found.outward == ("", "plain/")
    routes.configure(SetLinkRoutes([]))
    assert found.outward == ("", "")


def test_a_connection_in_the_place_of_another_keeps_its_routes() -> None:
    """Also if nobody has told that the earlier one is gone."""
    routes = configured(LinkRouteSetup(False, "a", container="b"), LinkRouteSetup(False, "c", container="d"))
    connected(routes, "d")
    while routes.restless:
        routes.step(0)
    assert (hosts(routes, "a"), hosts(routes, "c")) == ([], [BROKER])


def test_routes_of_a_connection_go_one_by_one_also_if_its_worker_dies_meanwhile() -> None:
    routes = configured(*(LinkRouteSetup(False, f"a{number}", container="b") for number in range(8)))
    routes.closed(*BROKER)
    routes.step(0)
    routes.forget_worker(BROKER[0])
    assert sum(bool(one.hosts) for one in routes.entries()) == 7
