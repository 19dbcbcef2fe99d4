"""Vhost policy as clients meet it."""

import pytest
from proton import Message
from proton.utils import BlockingConnection

from tests.support.clients.secured import Credentials, attempt
from tests.support.clients.wire import BEGIN, Wire
from tests.support.peer import REJECTED, Net
from tests.support.running import LONG, Configuration, RunningRouter, Since, until

POLICY = """
policy {
    enableVhostPolicy: yes
    defaultVhost: $none
    maxMessageSize: 100000
}
vhost {
    hostname: free
    aliases: libre
    maxConnections: 1
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: 127.0.0.0-127.0.0.9, ::1
            sources: news*
            targets: *
            allowAnonymousSender: yes
            allowUserIdProxy: yes
        }
    }
}
vhost {
    hostname: strict
    allowUnknownUser: yes
    maxMessageSize: 2000
    groups: {
        $default: {
            remoteHosts: *
            sources: own_${user}, list
            targetPattern: list, jobs.*.in
            allowAnonymousSender: yes
            maxFrameSize: 2048
            maxSessionWindow: 20480
            maxSessions: 3
            maxSenders: 2
            maxReceivers: 1
        }
    }
}
vhost {
    hostname: far
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: 10.0.0.1
        }
    }
}
vhost {
    hostname: named
    allowUnknownUser: yes
    groups: {
        $default: {
            remoteHosts: 10.0.0.1, localhost, 10.0.0.7-10.0.0.9
            sources: news*
        }
    }
}
vhost {
    hostname: members
    groups: {
        some: {
            users: alice
            remoteHosts: *
        }
    }
}
"""
NOT_ALLOWED = "amqp:unauthorized-access"
TOO_MANY = "amqp:resource-limit-exceeded"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration("workers: 2", sections=POLICY)


@pytest.fixture(autouse=True)
def since(router: RunningRouter) -> Since:
    """What the test has caused."""
    return Since(router)


def at(vhost: str) -> Credentials:
    return Credentials(vhost=vhost, mechanisms="ANONYMOUS")


@pytest.mark.parametrize("vhost", ["unknown", "far", "members"])
def test_who_is_not_let_in_is_told_so(router: RunningRouter, since: Since, vhost: str) -> None:
    """An unknown vhost, a host outside its ranges, a user in no group."""
    outcome = attempt(router.url, at(vhost), [("receiver", "a")])
    assert (outcome.error, outcome.description) == (TOO_MANY, "connection disallowed by local policy")
    since.counted("refused_vhost", 1)
    since.says("denied: ")


def test_connections_are_counted_over_all_workers(router: RunningRouter, since: Since) -> None:
    """The second one, on the other worker, is too many; when the first is gone there is room again."""
    with HeldConnection(router, "free"):
        outcome = attempt(router.url, at("libre"), [("receiver", "news")])
        assert outcome.error == TOO_MANY
        since.counted("refused_connections", 1)
    until(lambda: attempt(router.url, at("free")).error == "", "room")


def test_a_host_that_is_allowed_by_its_name(router: RunningRouter) -> None:
    """Beside addresses and ranges that are others'."""
    assert attempt(router.url, at("named"), [("receiver", "news")]).error == ""


def test_addresses_that_are_allowed(router: RunningRouter) -> None:
    """Names and patterns, however they are spelt."""
    links = [("receiver", "/list"), ("sender", "amqp:/list"), ("sender", "jobs.a.in")]
    outcome = attempt(router.url, at("strict"), links, sends=False)
    assert outcome.link_errors == ()
    assert outcome.max_frame == 2048
    assert outcome.channel_max == 2


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("receiver", "own_other"),
        ("receiver", "own_anonymous"),  # a stranger has nothing of its own
        ("receiver", "own_"),
        ("sender", "lists"),
        ("sender", "jobs.a.b.in"),
        ("sender", "/own_anonymous"),
        ("dynamic", None),
    ],
)
def test_an_address_that_is_not_allowed(router: RunningRouter, since: Since, kind: str, address: str | None) -> None:
    outcome = attempt(router.url, at("strict"), [(kind, address)])
    assert outcome.link_errors == (NOT_ALLOWED,)
    since.counted("refused_addresses", 1)
    since.says(r"\(user 'anonymous', vhost strict\) denied")


def test_an_anonymous_sender_may_name_allowed_addresses_only(router: RunningRouter, since: Since) -> None:
    """Each message is looked at; of many to one address only the first asks."""
    for _ in range(2):
        outcome = attempt(router.url, at("strict"), [("sender", None)], Message(address="secret", body="x"))
        assert outcome.dispositions == (NOT_ALLOWED,)
    since.counted("refused_messages", 2)
    other = attempt(router.url, at("free"), [("sender", None)], Message(address="secret", body="x"))
    assert other.dispositions == ("38",)  # released: allowed there, whatever was found out for the others


def test_what_a_session_may_send_ahead(router: RunningRouter) -> None:
    """The answer to BEGIN says so, in frames (AMQP 2.7.2): maxSessionWindow by maxFrameSize."""
    with Wire(router.address, "strict") as wire:
        wire.begin(1)
        assert wire.expect(BEGIN).fields[2] == 10


def test_sessions_are_counted(router: RunningRouter, since: Since) -> None:
    """In the same breath as OPEN, before its answer says how many there may be, and after it."""
    with Wire(router.address, "strict", sessions=4) as wire:
        assert wire.error() == (TOO_MANY, "session disallowed by local policy")
    since.counted("refused_sessions", 1)
    since.says("session of .* denied: it has as many as its vhost allows")
    with Wire(router.address, "strict", sessions=3) as wire:
        wire.begin(3)
        assert wire.error()[0] == "amqp:connection:framing-error"
    assert attempt(router.url, at("strict"), [("receiver", "list")]).error == ""


def test_links_are_counted(router: RunningRouter, since: Since) -> None:
    links = [("receiver", "list"), ("receiver", "list"), ("sender", "list")]
    outcome = attempt(router.url, at("strict"), links, sends=False)
    assert outcome.link_errors == (TOO_MANY,)
    since.counted("refused_links", 1)


@pytest.mark.parametrize("size", [2_000, 50_000])
def test_a_message_too_large_ends_link_and_connection(router: RunningRouter, since: Since, size: int) -> None:
    """Rejected with the condition, and everything closed; in one frame or in many."""
    message = Message(address="list", body="x" * size)
    outcome = attempt(router.url, at("strict"), [("sender", None)], message)
    assert outcome.dispositions == ("amqp:link:message-size-exceeded",)
    assert outcome.link_errors == (), "the reason is told once, with the message"
    assert outcome.error == "amqp:connection:forced"
    since.counted("refused_size", 1)
    assert attempt(router.url, at("free"), [("sender", None)], message).dispositions == ("38",)  # released


def test_a_message_that_nobody_takes_is_measured_too(router: RunningRouter, since: Since) -> None:
    """The rest of it is thrown away as it comes, and counts all the same."""
    with Net(router.address) as net:
        peer = net.peer(hostname="strict")
        sender = peer.ready_sender(None)
        data = Message(address="jobs.x.in", body="x" * 2000).encode()
        sent = net.begin(sender, data[:1000])
        peer.round_trip()  # it has no destination: that is known now
        sender.stream(data[1000:])
        sender.advance()
        peer.expect_error = True
        net.until(lambda: peer.connection.remote_condition, "the router's CLOSE")
        assert peer.connection.remote_condition.name == "amqp:connection:forced"
        assert sent.remote_state == REJECTED
    since.counted("refused_size", 1)


def test_a_foreign_user_id_is_rejected(router: RunningRouter, since: Since) -> None:
    """The user's own passes."""
    for user, disposition in ((b"mallory", NOT_ALLOWED), (b"anonymous", None)):
        message = Message(address="jobs.x.in", body="x", user_id=user)
        outcome = attempt(router.url, at("strict"), [("sender", None)], message)
        assert (outcome.dispositions == (NOT_ALLOWED,)) is (disposition is not None)
    since.counted("refused_user_id", 1)


class HeldConnection:
    """A connection to a vhost that stays open."""

    def __init__(self, router: RunningRouter, vhost: str) -> None:
        self.router, self.vhost = router, vhost

    def __enter__(self) -> "HeldConnection":
        self.connection = BlockingConnection(
            self.router.url, virtual_host=self.vhost, allowed_mechs="ANONYMOUS", timeout=LONG
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
