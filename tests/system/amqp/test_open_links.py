"""Links that the core has a worker attach, on a connection that a connector has made."""

import logging
from collections.abc import Iterator

import pytest
from proton import Condition, Endpoint, Link, int32

from bench import contract as n
from bench.contract import C_ATTACHED, C_DETACH, C_OPEN_LINK, C_PRESENTED
from shm.contract.failures import failures
from shm.contract.payloads import Attach, Attached, ConnectionOpened, Cost, Detach, LinkRefused, OpenLink, Presented
from shm.statistics import stats
from tests.support.beds.stand import Stand
from tests.support.peer import error_of, is_closed
from tests.support.servers.acceptor import Accepted, Acceptor


@pytest.fixture
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    stand = Stand(request.node.name[:40], **getattr(request, "param", {}))
    yield stand
    for peer in stand.peers:
        peer.socket.close()
    stand.end()


@pytest.fixture
def acceptor(stand: Stand) -> Iterator[Acceptor]:
    acceptor = Acceptor(stand)
    yield acceptor
    acceptor.close()


def opened(stand: Stand, acceptor: Acceptor, **attributes: object) -> tuple[Accepted, ConnectionOpened]:
    """A connection of a connector, open, and what the core was told of it."""
    stand.connect(acceptor.port, **attributes)
    stand.turn(0)
    peer = acceptor.accept({"product": "qpid-dispatch-router", "version": "1.19", "qd.inter-router-cost": 7})
    return peer, stand.hear(ConnectionOpened)[0]


def wish(connection: ConnectionOpened, request: int, name: str, outgoing: bool, **more: object) -> OpenLink:
    return OpenLink(
        connection.connection,
        connection.generation,
        request,
        name,
        outgoing,
        **{"source": None, "target": None} | more,  # type: ignore[arg-type]  # a test's shorthand
    )


def capabilities(link: Link) -> list[str]:
    """What both remote termini say, raw: a bare symbol or an array."""
    return [bytes(t.capabilities.format()).decode() for t in (link.remote_source, link.remote_target)]


def test_the_core_is_told_who_made_a_connection_and_what_it_costs(stand: Stand, acceptor: Acceptor) -> None:
    """With the cost of this end, and the form of annotations that the peer's product knows."""
    peer, connection = opened(stand, acceptor, role="inter-router", cost=3)
    assert (connection.connector, connection.role, connection.cost) == ("c", "inter-router", 3)
    assert (connection.annotations, connection.container) == (1, "broker")
    said = peer.connection.remote_properties
    assert (said["product"], said["qd.inter-router-cost"], said["qd.annotations-version"]) == ("routerd", 3, 1)
    assert {type(said["qd.inter-router-cost"]), type(said["qd.annotations-version"])} == {int32}
    assert peer.connection.remote_hostname == "127.0.0.1"


@pytest.mark.parametrize("stand", [{"most_links": 2}], indirect=True)
def test_a_link_beyond_the_most_is_refused_and_counted(
    stand: Stand, acceptor: Acceptor, caplog: pytest.LogCaptureFixture
) -> None:
    """The peer is told why, the others stay; where one ends there is room again."""
    caplog.set_level(logging.INFO, "SERVER")
    peer, _ = opened(stand, acceptor)
    session = peer.session()
    first, second, beyond = (peer.begin_sender(name, session) for name in "abc")
    stand.until(lambda: is_closed(beyond), "refusal")
    assert error_of(beyond)[0] == "amqp:resource-limit-exceeded"
    assert [one.name for one in stand.hear(Attach, 2)] == [first.name, second.name]
    assert stats.read(stand.segments.worker_stats(0))["refused_room"] == 1
    refused = f"link {beyond.name!r} of 127.0.0.1:{acceptor.port} refused: this worker has no room"
    assert [text for text in caplog.messages if text.startswith(refused)]
    first.close()
    stand.hear(Detach)
    peer.begin_sender("d", session)
    stand.hear(Attach)


@pytest.mark.parametrize("event", ["attach", "connection_open", "connection_close", "link_lost"])
def test_a_worker_that_fails_at_what_a_peer_does_ends_that_connection(
    stand: Stand, acceptor: Acceptor, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why on the connection and in the log, and counts; the worker goes on."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    stand.connect(acceptor.port)
    stand.turn(0)
    monkeypatch.setattr(stand.handler, event, fail)
    before = failures.number
    peer = acceptor.accept()
    if event == "link_lost":
        link = peer.begin_sender("a", peer.session())
        stand.hear(Attach)
        link.close()
        peer.flush()
        stand.until(lambda: failures.number == before + 1, "the failure")
    elif event == "attach":
        peer.begin_sender("a", peer.session())
    elif event == "connection_close":
        stand.hear(ConnectionOpened)
        peer.connection.close()
    stand.until(lambda: peer.connection.state & Endpoint.REMOTE_CLOSED, "the end of the connection")
    assert peer.connection.remote_condition.name == "amqp:internal-error"
    assert failures.number == before + 1


def test_what_is_posted_between_rounds_does_not_wait_for_a_socket(stand: Stand, acceptor: Acceptor) -> None:
    """A worker that has nothing else to do would sleep on it, and a new core wait for what it says."""
    peer, _ = opened(stand, acceptor)
    stand.turn(0)
    seen: list[bytes | None] = []
    stand.handler.attach = lambda *_: seen.append(stand.actions.pop())  # type: ignore[method-assign]  # the test is the handler
    peer.begin_sender("a", peer.session())
    stand.registry.post(Presented())
    while not seen:
        peer.flush()
        stand.pump.run(0.0)
    assert seen[0] is not None
    assert n.unpack(seen[0])["state"] == C_PRESENTED


def test_links_stand_in_the_sessions_that_they_are_asked_for(stand: Stand, acceptor: Acceptor) -> None:
    """Each session number has its session; names, addresses, modes and capabilities are as asked."""
    peer, connection = opened(stand, acceptor)
    router = {"source_capabilities": ["qd.router"], "target_capabilities": ["qd.router"]}
    stand.tell(C_OPEN_LINK, wish(connection, 11, "out", True, **router))
    stand.tell(C_OPEN_LINK, wish(connection, 12, "in", False, **router))
    more = {"source": "here", "target": "there", "snd_settle_mode": 1, "target_capabilities": ["a", "b"]}
    stand.tell(C_OPEN_LINK, wish(connection, 13, "other", True, session=4, **more))
    out, back, other = (peer.link(name) for name in ("out", "in", "other"))
    assert out.is_receiver
    assert back.is_sender
    assert out.session == back.session != other.session
    assert capabilities(out) == capabilities(back) == [':"qd.router"', ':"qd.router"']
    assert capabilities(other)[1].startswith("@PN_SYMBOL[:a, ")
    assert (other.remote_source.address, other.remote_target.address) == ("here", "there")
    assert other.remote_snd_settle_mode == 1
    for name in ("in", "out", "other"):
        peer.answer(name)
    attached = {one.request: one for one in stand.hear(Attach, 3)}
    assert [(one.name, one.outgoing, one.router_initiated) for one in (attached[11], attached[12], attached[13])] == [
        ("out", True, True),
        ("in", False, True),
        ("other", True, True),
    ]
    assert (attached[11].capabilities, attached[12].capabilities) == (["qd.router"], ["qd.router"])
    assert attached[13].address == "there"
    assert not any(one.restored for one in attached.values())


def test_a_dynamic_source_is_told_by_the_peer(stand: Stand, acceptor: Acceptor) -> None:
    """The core learns the address that the peer has made."""
    peer, connection = opened(stand, acceptor)
    stand.tell(C_OPEN_LINK, wish(connection, 1, "d", False, dynamic_source=True))
    assert peer.link("d").remote_source.dynamic
    peer.answer("d")
    assert stand.hear(Attach)[0].address == "made-here"


def test_credit_is_as_configured_for_the_connection_or_as_asked(stand: Stand, acceptor: Acceptor) -> None:
    """The core gives as much as it is told."""
    peer, connection = opened(stand, acceptor, link_capacity=7)
    stand.tell(C_OPEN_LINK, wish(connection, 1, "configured", False))
    stand.tell(C_OPEN_LINK, wish(connection, 2, "asked", False, capacity=3))
    peer.answer("configured")
    peer.answer("asked")
    assert [(one.name, one.capacity) for one in stand.hear(Attach, 2)] == [("configured", 7), ("asked", 3)]


def test_a_cost_that_changes_is_told(stand: Stand, acceptor: Acceptor) -> None:
    """The connection stays."""
    peer, connection = opened(stand, acceptor, role="inter-router", cost=3)
    for cost in (5, 9):
        stand.connect(acceptor.port, role="inter-router", cost=cost)
        told = stand.hear(Cost)[0]
        assert (told.connection, told.generation, told.cost) == (connection.connection, connection.generation, cost)
    assert not peer.closed


def test_a_session_ends_with_its_last_link(stand: Stand, acceptor: Acceptor) -> None:
    """One that is asked for later under the same number is another one."""
    peer, connection = opened(stand, acceptor)
    for request, name in enumerate(("a", "b"), 1):
        stand.tell(C_OPEN_LINK, wish(connection, request, name, True, session=6))
        peer.answer(name)
    first, second = stand.hear(Attach, 2)
    session = peer.link("a").session
    stand.tell(C_DETACH, Detach(first.link, first.generation))
    stand.until(lambda: peer.link("a").state & Endpoint.REMOTE_CLOSED, "detach")
    assert session.state & Endpoint.REMOTE_ACTIVE
    stand.tell(C_DETACH, Detach(second.link, second.generation))
    stand.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "END")
    stand.tell(C_OPEN_LINK, wish(connection, 3, "c", True, session=6))
    assert peer.link("c").session != session


def test_a_refused_link_is_told_once_with_its_reason(stand: Stand, acceptor: Acceptor) -> None:
    """Also when the peer first attaches with a null terminus, as AMQP has it."""
    peer, connection = opened(stand, acceptor)
    for request, (name, outgoing) in enumerate([("out", True), ("in", False)], 1):
        stand.tell(C_OPEN_LINK, wish(connection, request, name, outgoing, source="a", target="a"))
        peer.refuse(name, Condition("amqp:not-found", "no such thing"))
        refused = stand.hear(LinkRefused)[0]
        assert (refused.request, refused.error.condition) == (request, "amqp:not-found")
    assert not [one for one in stand.heard if isinstance(one, Attach | Detach)]


@pytest.mark.parametrize("outgoing", [True, False], ids=["out", "in"])
def test_an_answer_without_the_address_is_none(stand: Stand, acceptor: Acceptor, outgoing: bool) -> None:
    """Some clients open whatever comes; nothing is sent to them that they have not asked for."""
    peer, connection = opened(stand, acceptor)
    stand.tell(C_OPEN_LINK, wish(connection, 1, "named", outgoing, source="a", target="a"))
    stand.tell(C_OPEN_LINK, wish(connection, 2, "nameless", outgoing))
    peer.link("named").open()
    peer.answer("nameless")
    assert stand.hear(Attach)[0].request == 2
    peer.link("named").close()
    assert stand.hear(LinkRefused)[0].request == 1
    assert not [one for one in stand.heard if isinstance(one, Attach)]


def test_a_lost_connection_refuses_what_was_asked(stand: Stand, acceptor: Acceptor) -> None:
    """What was open is detached; what was asked later, of a connection that is gone, is refused at once."""
    peer, connection = opened(stand, acceptor)
    stand.tell(C_OPEN_LINK, wish(connection, 1, "open", True))
    stand.tell(C_OPEN_LINK, wish(connection, 2, "asked", True))
    peer.link("asked")
    peer.answer("open")
    link = stand.hear(Attach)[0]
    peer.drop()
    assert stand.hear(LinkRefused)[0].request == 2
    assert stand.hear(Detach)[0].link == link.link
    stand.tell(C_OPEN_LINK, wish(connection, 3, "late", True))
    assert stand.hear(LinkRefused)[0].request == 3


def test_a_new_core_is_told_which_links_the_router_began(stand: Stand, acceptor: Acceptor) -> None:
    """In the order in which they came; those that were not answered are closed, and not spoken of."""
    peer, connection = opened(stand, acceptor)
    router = {"source_capabilities": ["qd.router"], "target_capabilities": ["qd.router"]}
    for request, name in enumerate(("z", "y", "x", "asked"), 1):
        stand.tell(C_OPEN_LINK, wish(connection, request, name, request % 2 == 0, **router))
        if name != "asked":
            peer.answer(name)
            stand.hear(Attach)
    peer.link("asked")
    stand.core_dies()
    again = stand.hear(ConnectionOpened)[0]
    assert (again.connector, again.number) == ("c", connection.number)
    links = stand.hear(Attach, 3)
    assert [(one.name, one.outgoing) for one in links] == [("z", False), ("y", True), ("x", False)]
    assert all(one.restored and one.router_initiated and one.request == 0 for one in links)
    assert all(one.capabilities == ["qd.router"] for one in links)
    peer.answer("asked")
    stand.until(lambda: peer.attached["asked"].remote_condition is None, "nothing")
    stand.until(lambda: peer.attached["asked"].state & 32, "detach of what the dead core had asked for")
    assert not [one for one in stand.heard if isinstance(one, Attach)]


def test_an_attach_that_two_cores_died_of_is_refused(
    stand: Stand, acceptor: Acceptor, caplog: pytest.LogCaptureFixture
) -> None:
    """A third core does not meet it, but those that others have answered."""
    peer, connection = opened(stand, acceptor)
    session = peer.session()
    answered, fatal = peer.begin_sender("a", session), peer.begin_sender("b", session)
    for one in stand.hear(Attach, 2):
        if one.name != fatal.name:
            stand.tell(C_ATTACHED, Attached(one.link, one.generation))
    stand.until(lambda: answered.state & Endpoint.REMOTE_ACTIVE, "ATTACH")
    stand.core_dies()
    assert {one.name for one in stand.hear(Attach, 2)} == {answered.name, fatal.name}
    assert not fatal.state & Endpoint.REMOTE_CLOSED
    stand.core_dies()
    assert [one.name for one in stand.hear(Attach)] == [answered.name]
    stand.until(lambda: is_closed(fatal), "DETACH")
    assert error_of(fatal)[0] == "amqp:internal-error"
    assert f"[C{connection.number}] ATTACH of link {fatal.name!r} refused" in caplog.text
    stand.core_dies()
    assert [one.name for one in stand.hear(Attach)] == [answered.name]
    assert not any(isinstance(one, Attach) for one in stand.heard)


def test_an_attach_is_not_blamed_for_cores_that_were_told_to_go(stand: Stand, acceptor: Acceptor) -> None:
    """As by `routerd restart`, twice while the core waits for another router's word on it."""
    peer, _ = opened(stand, acceptor)
    waiting = peer.begin_sender("b", peer.session())
    for _ in range(3):
        (attach,) = stand.hear(Attach)
        assert attach.name == waiting.name
        stand.core_dies(died=False)
    (attach,) = stand.hear(Attach)
    stand.tell(C_ATTACHED, Attached(attach.link, attach.generation))
    stand.until(lambda: waiting.state & Endpoint.REMOTE_ACTIVE, "ATTACH")
