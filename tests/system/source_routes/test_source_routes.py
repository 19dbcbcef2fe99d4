"""Source routes through a running router: plain clients, lists in message annotations, workers inside."""

import json
import signal
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from proton import Endpoint, Message, symbol

from routerd.cli.client import Client, Place
from tests.support.clients.routed_messages import RETURN, bare, message, passed, refused, routes
from tests.support.peer import ACCEPTED, REJECTED, RELEASED, Net
from tests.support.running import Configuration, RunningRouter, until
from tests.support.values.route_ways import PATHS, WORKERS, section, sent, told


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(
        sections="".join(section(case, text) for case, texts in WORKERS.items() for text in texts)
        + "routeWorker {\naddress: self\nkind: static\nroute: self\n}\n"
        + "routeWorker {\naddress: ping\nkind: static\nroute: pong\n}\n"
        + "routeWorker {\naddress: pong\nkind: static\nroute: ping\n}\n"
        + "routeWorker {\naddress: wheel\nkind: discovery\nroute: wheel=>x\ninner: wheel.in\n}\n"
        + "routeWorker {\naddress: guarded\nkind: forward\nallow: worker:gate\n}\n"
        + "routeWorker {\naddress: gate\nkind: forward\nsendTo: guarded\n}\n"
        + "routeWorker {\naddress: enc\nkind: transform\nuse: base64:b64encode\ntrace: yes\n}\n"
        + "routeWorker {\naddress: odd\nkind: transform\nuse: json:loads\n}\n"
        + "routeWorker {\naddress: tee\nkind: tee\nroute: audit\n}\n"
        + "routeWorker {\naddress: wl\nkind: wrap\nroute: carry=>u\n}\n"
        + "routeWorker {\naddress: x\nkind: forward\n}\nrouteWorker {\naddress: y\nkind: forward\n}\n"
        + "routeWorker {\naddress: u\nkind: unwrap\ntrace: yes\n}\n",
        expected="transform json:loads failed on a message: JSONDecodeError",
    )


@pytest.mark.parametrize(("case", "first", "last", "where"), PATHS, ids=str)
def test_a_way_of_the_specification(net: Net, case: str, first: int, last: int, where: str) -> None:
    """Through configured workers, from an anonymous sender with two lists to a receiver."""
    expected = sent(case, last, where)
    arrived = passed(net, sent(case, first, where), None, routes(expected)[0][0])
    assert told(arrived.message) == told(expected)


LOOPS = [
    (["self", "x"], "self"), (["ping", "x"], "ping"), (["wheel", "x"], "wheel"),
]  # fmt: skip


@pytest.mark.parametrize(("onward", "at"), LOOPS, ids=str)
def test_a_loop_is_cut_and_the_address_at_fault_named(net: Net, onward: list[str], at: str) -> None:
    """A static forwarder to itself, two to each other, a discovery worker to itself: and others go on."""
    condition, text = refused(net, message(onward, ["me"]))
    assert condition == "amqp:resource-limit-exceeded"
    assert text is not None
    assert text.startswith(at)
    assert routes(passed(net, message(["x", "far"], ["me"]), None, "far").message) == (["far"], ["me"])


REFUSED = [
    (["x"], None, "amqp:invalid-field", "x: the onward route ends"),
    ([], None, "amqp:invalid-field", "the onward route is empty"),
    (["y", "q"], "x", "amqp:invalid-field", "x: the onward route begins with another address"),
    (["guarded", "q"], None, "amqp:unauthorized-access", "guarded: its sender may not send here"),
    (["gate", "q"], None, "amqp:unauthorized-access", "q: the worker before may not send here"),
    (["x", *("a" * 40)], None, "amqp:resource-limit-exceeded", "x-opt-route.onward has 41 addresses"),
    (["x", 5], None, "amqp:decode-error", "annotation x-opt-route.onward holds an address"),
    (["u", "q"], None, "amqp:invalid-field", "u: addresses follow the worker that unwraps"),
    (["u"], None, "amqp:decode-error", "u: the encoding is wrong"),
    (["x", "a" * 256], None, "amqp:resource-limit-exceeded", "a route has an address of 256 octets"),
]


@pytest.mark.parametrize(("onward", "target", "condition", "text"), REFUSED, ids=str)
def test_a_bad_route_is_refused_by_name(
    net: Net, onward: list[Any], target: str | None, condition: str, text: str
) -> None:
    found, description = refused(net, message(onward), target)
    assert (found, (description or "")[: len(text)]) == (condition, text)


def test_a_forged_return_route_opens_no_door(net: Net) -> None:
    """Who sent a message counts: by way of the gate it gets in, with the gate's name it does not."""
    assert routes(passed(net, message(["gate", "guarded", "in"]), None, "in").message) == (["in"], [])
    for returning in (["gate"], ["worker:gate"], ["gate", "guarded"]):
        assert refused(net, message(["guarded", "in"], returning))[0] == "amqp:unauthorized-access"


def test_a_client_without_any_list(net: Net) -> None:
    """`to` and `reply-to` are routes of one address, or whole ones."""
    arrived = passed(net, message(address="route:x=>S1.A1=>end", reply_to="me"), None, "end")
    assert routes(arrived.message) == (["end"], ["S1.A1", "me"])
    assert arrived.message.address == "route:x=>S1.A1=>end", "the bare message is as it was"
    assert arrived.message.annotations[symbol("x-opt-route.state")] == "complete"


def test_a_route_without_workers_is_where_it_says(net: Net) -> None:
    arrived = passed(net, message(["plain.q", "behind"], ["me"]), None, "plain.q")
    assert routes(arrived.message) == (["plain.q", "behind"], ["me"])


def test_a_sender_to_a_worker(net: Net) -> None:
    """The target of its link is a worker's address; what leads nowhere from there is released."""
    arrived = passed(net, message(["x", "linked"], ["me"]), "x", "linked")
    assert routes(arrived.message) == (["linked"], ["me"])
    peer = net.peer()
    assert net.settled(net.send(peer.ready_sender("x"), message(["x", "nobody"]))) == [RELEASED]


def test_an_answer_by_one_rule(net: Net) -> None:
    """Onward := return, return := [me]: it comes back, and the first sender sees its own route."""
    there = passed(net, message(["S1.A1", "S1.B1", "bob"], ["alice"]), None, "bob")
    onward = list(there.message.annotations[RETURN])
    back = passed(net, message(onward, ["bob"]), None, "alice")
    assert routes(back.message) == (["alice"], ["S1.A1", "S1.B1", "bob"])


def test_the_bare_message_stays_as_it_is(net: Net) -> None:
    """Properties, application properties and body, octet for octet, through forwarding workers."""
    sent = message(["S1.A1", "S1.B1", "same"], ["me"], subject="s", correlation_id="c", properties={"k": 1})
    sent.annotations["x-own"] = "kept"
    arrived = passed(net, sent, None, "same")
    assert bare(arrived.data) == bare(sent.encode())
    assert arrived.message.annotations["x-own"] == "kept"


@pytest.mark.parametrize("size", [0, 4, 700, 40_000])
def test_a_transform_changes_the_payload(net: Net, size: int) -> None:
    """Of any number of data sections; properties stay."""
    sent = message(["enc", "enc", "coded"], ["me"], subject="s")
    sent.body = b"x" * size
    octets = bytes(sent.encode()) + b"\x00\x53\x75\xa0\x04more"
    peer = net.peer()
    receiver = peer.receiver("coded", credit=1)
    delivery = net.send(peer.ready_sender(None), octets)
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert net.settled(delivery) == [ACCEPTED]
    assert routes(arrived.message) == (["coded"], ["enc", "enc", "me"])
    assert b64decode(b64decode(bytes(arrived.message.body))) == b"x" * size + b"more"
    assert arrived.message.subject == "s"


def test_a_transform_that_fails_refuses(net: Net) -> None:
    """With that reason, and nothing else is disturbed."""
    condition, text = refused(net, message(["odd", "end"]))
    assert (condition, text) == ("amqp:not-allowed", "odd: the transform failed; the router's log says why")
    assert passed(net, message(["x", "well"]), None, "well").body == b"ping"
    condition, text = refused(net, Message(body="text", address="route:enc=>end"))
    assert (condition, (text or "")[:26]) == ("amqp:decode-error", "enc: the encoding is wrong")


def test_a_tee_copies(net: Net) -> None:
    """The message goes on, and a settled copy of its payload to the tee's route, for nobody's credit."""
    peer = net.peer()
    audit, far = peer.receiver("audit", credit=300), peer.receiver("teed", credit=300)
    sender = peer.ready_sender("tee")
    for _ in range(3):
        sent = [net.send(sender, message(["tee", "teed"], ["me"])) for _ in range(100)]
        copies, gone = peer.take(audit, 100), peer.take(far, 100)
        for one in gone:
            one.settle()
        assert set(net.settled(*sent)) == {ACCEPTED}
    assert routes(copies[0].message) == (["audit"], [])
    assert routes(gone[0].message) == (["teed"], ["tee", "me"])
    assert copies[0].body == gone[0].body == b"ping"
    net.until(lambda: sender.credit > 250 - 250 // 4, "the credit of all that was sent, but for less than a quarter")
    assert sender.credit <= 250, "that of copies is nobody's"


LONG = b"wrapped " * 250_000


def test_a_long_message_is_wrapped_and_unwrapped_while_it_comes(net: Net) -> None:
    """Wrapped here, carried by a client of another scope that changes nothing, and unwrapped here again."""
    peer = net.peer()
    between, end = peer.receiver("carry", credit=1), peer.receiver("end", credit=1)
    first = net.stream(peer.ready_sender(None), long_one(["wl", "end"], ["me"]).encode())
    (wrapped,) = peer.take(between)
    assert routes(wrapped.message) == (["carry", "u"], [])
    assert len(wrapped.data) < len(LONG) * 1.01
    head = bytes(message(["u"]).encode())
    carried = head[: head.index(b"\x00Su")] + bare(wrapped.data)
    second = net.stream(peer.ready_sender(None), carried)
    (arrived,) = peer.take(end)
    assert routes(arrived.message) == (["end"], ["u", "me"])
    assert arrived.message.subject == "long"
    assert arrived.body == LONG
    wrapped.settle()
    arrived.settle()
    assert net.settled(first, second) == [ACCEPTED, ACCEPTED]


def long_one(onward: list[Any], returning: list[Any]) -> Message:
    made = message(onward, returning, subject="long")
    made.body = LONG
    return made


def test_management_makes_workers_and_takes_them_away(net: Net, router: RunningRouter) -> None:
    """While a link to the worker's address stays attached; what it has done is counted by reason."""
    kind = "router.config.routeWorker"
    peer = net.peer()
    sender, end = peer.sender("made"), peer.receiver("made.end", credit=300)
    assert sender.credit == 0, "it leads nowhere"
    with Client(Place(router.url)) as client:
        made = client.call("CREATE", {"kind": "forward", "address": "made", "trace": True}, type=kind)
        assert made["identity"] == "routeWorker/made"
        net.until(lambda: sender.credit > 0, "credit: it leads somewhere")
        good = net.send(sender, message(["made", "made.end"], ["me"]))
        bad = net.send(sender, message(["made"]))
        (arrived,) = peer.take(end)
        arrived.settle()
        assert net.settled(good, bad) == [ACCEPTED, REJECTED]
        assert routes(arrived.message) == (["made.end"], ["made", "me"])

        def counts() -> tuple[int, ...]:
            read = client.call("READ", type=kind, identity="routeWorker/made")
            assert read["refusedByReason"] in ({}, {"no-next": 1})
            return read["inCount"], read["outCount"], read["refusedCount"]

        until(lambda: counts() == (2, 1, 1), "counts")
        client.call("DELETE", type=kind, identity="routeWorker/made")

        def tried(*onward: str) -> tuple[list[int], int]:
            """What became of a message, and how many arrived: the answer comes before the worker of the link has
            heard of the change, and credit says nothing of it, because it may be left from before."""
            sent = net.send(sender, message([*onward], ["me"]))
            net.until(lambda: sent.settled or peer.inbox(end), "an outcome or the message")
            came = peer.take(end, len(peer.inbox(end)))
            for one in came:
                one.settle()
            return net.settled(sent), len(came)

        net.until(lambda: tried("made", "made.end") == ([RELEASED], 0), "the route worker is gone")
        client.call("CREATE", {"kind": "static", "address": "made", "route": "made.end"}, type=kind)
        net.until(lambda: tried("made") == ([ACCEPTED], 1), "the new one: its length of route is another")
        client.call("DELETE", type=kind, identity="routeWorker/made")


def test_the_file_adds_workers_and_takes_them_away(net: Net, router: RunningRouter) -> None:
    """By a reload; a link to the address stays attached all the time, and so does every other."""
    before = router.config.read_text()
    peer = net.peer()
    sender, end = peer.sender("filed"), peer.receiver("filed.end", credit=9)
    others = peer.ready_sender("x")

    def stray() -> list[int]:
        """What becomes of a message that is not for a worker that it comes to: by that it is seen."""
        return net.settled(net.send(sender, message(["another"])))

    for kind in ("forward", "static"):
        route = "route: filed.end" if kind == "static" else ""
        router.config.write_text(f"{before}routeWorker {{\naddress: filed\nkind: {kind}\n{route}\n}}\n")
        router.process.send_signal(signal.SIGHUP)
        net.until(lambda: sender.credit > 0, "credit: it leads somewhere")
        until(lambda: stray() == [REJECTED], "the worker")
        delivery = net.send(sender, message(["filed", *(["filed.end"] if kind == "forward" else [])], ["me"]))
        (arrived,) = peer.take(end)
        arrived.settle()
        assert net.settled(delivery) == [ACCEPTED]
        router.config.write_text(before)
        router.process.send_signal(signal.SIGHUP)
        until(lambda: stray() == [RELEASED], "the end of the worker")
    assert others.state & sender.state & Endpoint.REMOTE_ACTIVE, "both are still there"


@pytest.mark.parametrize("state", ["partial", "none"])
def test_a_reply_over_an_unusable_route_is_refused(net: Net, state: str) -> None:
    """It says what the message that it answers said of its return route; over a complete one it goes."""
    reply = message(["x", "me"], ["you"])
    reply.annotations[symbol("x-opt-route.reply")] = symbol(state)
    condition, text = refused(net, reply)
    assert condition == "amqp:precondition-failed"
    assert text is not None
    assert text.startswith(f"the return route is {state}: ")
    reply.annotations[symbol("x-opt-route.reply")] = symbol("complete")
    arrived = passed(net, reply, None, "me").message.annotations
    assert symbol("x-opt-route.reply") not in arrived


def test_a_tracing_context_goes_along(net: Net) -> None:
    """Through forwarders, and through BARE of version 2 and back."""
    sent = message(["W7.C1", "S1.A1", "traced"], ["me"])
    sent.annotations[symbol("x-opt-route.tracing")] = "context"
    arrived = passed(net, sent, None, "traced").message.annotations
    assert arrived[symbol("x-opt-route.tracing")] == "context"
    assert list(arrived[RETURN]) == ["S1.A1", "W7.C2", "me"]


def trace(router: RunningRouter, route: str, *options: str) -> tuple[int, list[str]]:
    tool = Path(sys.executable).with_name("routerd")
    command = [tool, "route", "trace", route, "--bus", router.url, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines() or done.stderr.splitlines()


def test_a_live_message_is_followed(router: RunningRouter) -> None:
    """Up to its last worker, through wrappers too; its destination, where nobody is, hears nothing."""
    assert trace(router, "D3.D1=>S1.A1=>nobody") == (
        0,
        [
            "  1  D3.D1", "  2  D3.T13", "  3  D3.F3", "  4  D3.D2i", "  5  S1.A1",
            "arrives at nobody after 5 workers", "return route to the sender by: S1.A1=>D3.D2; complete",
        ],
    )  # fmt: skip
    status, lines = trace(router, "self=>nobody")
    assert (status, lines[0].split(":")[:3]) == (
        1, ["refused, amqp", "resource-limit-exceeded", " self"]
    )  # fmt: skip
    assert trace(router, "alone")[0] == 2
    status, lines = trace(router, "D3.D1=>S1.A1=>nobody", "--json")
    found = json.loads("".join(lines))
    assert (status, found["passed"][-1], found["returning"]) == (0, "S1.A1", ["S1.A1", "D3.D2", "trace"])
