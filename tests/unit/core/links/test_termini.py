"""What the far end of a routed link is told of its address, and the first end in return."""

import msgspec
import pytest

from core.amqp import codec as wire
from core.link_routes.routes import Route
from core.links.termini import changed, node_address, placed, unplaced
from shm.contract.payloads import Attach, Termini, Terminus


def termini(outgoing: bool, **fields: object) -> Termini:
    """Of a link whose address stands where it counts."""
    one = Terminus(kind=1, **fields)  # type: ignore[arg-type]  # a test's shorthand
    return Termini(one, Terminus()) if outgoing else Termini(Terminus(), one)


def address(of: Termini, outgoing: bool) -> str | None:
    return (of.source if outgoing else of.target).address


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("spelling", ["queue.a", "/queue.a", "amqp:/queue.a"])
def test_a_tenant_s_link_has_its_whole_address(outgoing: bool, spelling: str) -> None:
    """Towards the broker; the tenant sees its own."""
    whole = placed(termini(outgoing, address=spelling), outgoing, "a.example")
    assert address(whole, outgoing) == "a.example/queue.a"
    assert address(unplaced(whole, outgoing, "a.example"), outgoing) == "queue.a"
    assert placed(whole, outgoing, "") is unplaced(whole, outgoing, "") is whole


def test_a_dynamic_node_is_wanted_below_the_whole_address() -> None:
    """Where its properties say below which."""
    pairs = [(wire.symbol("x-opt-qd.address"), wire.string("queue.a")), (wire.symbol("more"), wire.string("x"))]
    wanted = termini(True, dynamic=True, properties=bytes(wire.mapping(pairs)))
    whole = placed(wanted, True, "a.example")
    assert node_address(Attach(0, 1, 0, "l", True, None, dynamic=True, termini=whole)) == "a.example/queue.a"
    assert wire.Parser(whole.source.properties).value()["more"] == "x"
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(whole), type=Termini) == whole, "a worker is told of it"
    made = termini(True, dynamic=True, address="a.example/made")
    assert unplaced(made, True, "a.example") is made, "what the broker has made is its own"


@pytest.mark.parametrize("properties", [b"", b"\xff", wire.string("no map"), wire.mapping([])])
def test_properties_that_say_nothing_stay(properties: bytes) -> None:
    wanted = termini(True, dynamic=True, properties=properties)
    assert placed(wanted, True, "t") is wanted


def test_a_coordinator_has_no_address() -> None:
    wanted = Termini(Terminus(), Terminus(kind=3))
    assert placed(wanted, False, "t") is wanted


def test_prefixes_of_a_route() -> None:
    """Put there and taken away, and the other way round on the way back."""
    route = Route("Cqueue", add_prefix="deep/", remove_prefix="q.")
    told = changed(termini(False, address="q.a"), False, route.outward)
    assert address(told, False) == "deep/a"
    assert address(changed(told, False, route.inward), False) == "q.a"
