"""Auto links: asked for when their connection is there, tried again, given up with it."""

import msgspec
import pytest

from bench.contract import C_ATTACH, C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH, C_LINK_REFUSED, C_OPEN_LINK
from core.links.auto_links import FIRST_RETRY_NS, RETRY_NS, AutoLinks
from core.links.terminus import NO_ROOM
from shm.contract.control import SetRouting
from shm.contract.payloads import Attach, ConnectionClosed, ConnectionOpened, Detach, Error, LinkRefused, OpenLink
from shm.contract.routing import AutoLinkSetup, Routing
from tests.support.beds.control import Bed

OUT = AutoLinkSetup("1", "queue", False, 0, connection="broker")
IN = AutoLinkSetup("2", "queue", True, 1, container="b", external="ext")


class Broker(Bed):
    """A core that is to attach to a broker, whose part the test plays."""

    def __init__(self, *links: AutoLinkSetup) -> None:
        super().__init__()
        self.core.configure(SetRouting(Routing(list(links))))

    def connect(self, connection: int = 7, restored: bool = False) -> None:
        fields = {"role": "route-container", "connector": "broker", "restored": restored}
        self.say(C_CONNECTION_OPENED, ConnectionOpened(connection, 1, "b", "h:1", **fields))

    def asked(self) -> list[OpenLink]:
        """What the core asks for."""
        work = [r for r in self.step() if r["state"] == C_OPEN_LINK]
        return [msgspec.msgpack.decode(self.core_arena.read(r["block"]), type=OpenLink) for r in work]

    def answer(self, wish: OpenLink, link: int = 3) -> None:
        """The peer's attach."""
        address = wish.target if wish.outgoing else wish.source
        attach = Attach(
            link, 1, wish.connection, wish.name, wish.outgoing, address, request=wish.request, router_initiated=True
        )
        self.say(C_ATTACH, attach)
        self.step()

    def wait(self, nanoseconds: int) -> list[OpenLink]:
        self.now += nanoseconds
        self.core.step(self.now)
        self.core.tick(self.now)
        return self.asked()

    def state(self, identity: str) -> tuple[str, str]:
        auto = self.core.plane(AutoLinks).find(identity)
        assert auto is not None
        return auto.state, auto.error


def test_links_are_attached_with_their_phases() -> None:
    """In and out, by connection and by container, with the address that the peer knows."""
    bed = Broker(OUT, IN)
    assert bed.state("1") == ("inactive", "")
    bed.connect()
    out, back = bed.asked()
    assert (out.outgoing, out.source, out.target) == (True, None, "queue")
    assert (back.outgoing, back.source, back.target) == (False, "ext", None)
    assert bed.state("1") == ("attaching", "")
    bed.answer(out, 3)
    bed.answer(back, 4)
    assert bed.state("1") == bed.state("2") == ("active", "")
    keys = {link.link: link.address.key for link in bed.core.links.entries() if link.address}
    assert keys == {3: "M0queue", 4: "M1queue"}


def test_a_refusal_is_tried_again_after_2_and_then_5_seconds() -> None:
    """It says why it failed, until it is attached."""
    bed = Broker(OUT)
    bed.connect()
    (wish,) = bed.asked()
    for pause in (FIRST_RETRY_NS, RETRY_NS, RETRY_NS):
        bed.say(C_LINK_REFUSED, LinkRefused(wish.request, Error("amqp:not-found", "Node not found")))
        assert bed.asked() == []
        assert bed.state("1") == ("failed", "Node not found")
        assert bed.wait(pause - 100) == []
        (wish,) = bed.wait(200)
    bed.answer(wish)
    assert bed.state("1") == ("active", "")
    bed.say(C_DETACH, Detach(3, 1))
    assert bed.asked() == []
    assert bed.state("1") == ("failed", "the peer detached the link")
    assert len(bed.wait(FIRST_RETRY_NS + 100)) == 1


def test_a_link_that_finds_no_room_here_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer has answered, so that nobody else asks for it again."""
    bed = Broker(OUT)
    bed.connect()
    (wish,) = bed.asked()
    with monkeypatch.context() as full:
        full.setattr(type(bed.core.forwarder), "add_link", lambda *_: False)
        bed.answer(wish)
    assert bed.state("1") == ("failed", NO_ROOM.description)
    (wish,) = bed.wait(FIRST_RETRY_NS + 100)
    bed.answer(wish)
    assert bed.state("1") == ("active", "")


def test_each_connection_has_its_own() -> None:
    """What is lost on one stays on the other."""
    bed = Broker(OUT)
    bed.connect(7)
    bed.connect(8)
    first, second = bed.asked()
    bed.answer(first, 3)
    bed.answer(second, 4)
    bed.say(C_DETACH, Detach(3, 1))
    bed.say(C_CONNECTION_CLOSED, ConnectionClosed(7, 1))
    assert bed.asked() == []
    assert bed.state("1") == ("active", "")
    assert bed.wait(RETRY_NS) == []


def test_a_link_that_outlived_the_core_is_known_again() -> None:
    """And one that is wanted no more is detached."""
    bed = Broker(OUT)
    bed.connect(restored=True)
    bed.say(C_ATTACH, Attach(3, 1, 7, "a", True, "queue", restored=True, router_initiated=True))
    bed.say(C_ATTACH, Attach(4, 1, 7, "b", True, "former", restored=True, router_initiated=True))
    assert [r["state"] for r in bed.step()].count(C_DETACH) == 1
    assert bed.state("1") == ("active", "")
    assert bed.wait(RETRY_NS) == []


def test_a_change_ends_a_link_and_begins_another() -> None:
    """While its connection stays."""
    bed = Broker(OUT)
    bed.connect()
    bed.answer(*bed.asked())
    bed.core.configure(SetRouting(Routing([IN])))
    states = [r["state"] for r in bed.step()]
    assert states.count(C_DETACH) == states.count(C_OPEN_LINK) == 1
    assert bed.core.plane(AutoLinks).find("1") is None
    assert bed.state("2") == ("attaching", "")


@pytest.mark.parametrize(
    ("lost", "why"), [(False, "the peer detached the link"), (True, "the connection or session of the link is gone")]
)
def test_the_log_says_which_connection_and_what_became_of_it(
    caplog: pytest.LogCaptureFixture, lost: bool, why: str
) -> None:
    """By the name in the configuration: a peer may have no container id."""
    bed = Broker(OUT)
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(7, 1, "", "h:1", role="route-container", connector="broker"))
    bed.answer(*bed.asked())
    with caplog.at_level("INFO", "ROUTER_CORE"):
        bed.say(C_DETACH, Detach(3, 1, lost=lost))
        bed.step()
    (told,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert told == f"auto link queue out to broker failed: {why}; the router retries"
