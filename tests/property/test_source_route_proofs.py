"""What holds for every message that passes workers of source routes, as worker processes pass it on."""

import hashlib
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from proton import Message, symbol, ubyte

from routerd.config import parse
from routerd.source_routes.address import Route, local, show_route
from routerd.translate.identities import Identities
from routerd.translate.source_routes import source_routes
from shm.contract.source_routes import SourceRoutesSetup
from tests.model.routed import BODY, encoded, said
from tests.model.routed_worlds import POOL, RULES, SOURCES, messages, paths, routers, workers
from tests.model.source_routes.access import Access
from tests.model.source_routes.explain import explain
from tests.model.source_routes.message import Message as Model
from tests.model.source_routes.message import new_message
from tests.model.source_routes.place import Place
from tests.model.source_routes.setup import setup_of
from tests.model.source_routes.workers import Count, Discovery, Forward, Proxy, Strip, ToMarker, Unwrap, Worker, Wrap
from tests.support.native.routed import DONE, Answer, RefusedError, Router
from tests.support.values.source_routing import VECTORS


def outcome(router: Router, octets: bytes, source: str = "user:x") -> Answer | str:
    """What becomes of a message: the reason, if it is refused."""
    try:
        return router(octets, frozenset({source}))
    except RefusedError as refused:
        return refused.reason


# ---- the payload stays as it is ----

values = st.none() | st.booleans() | st.integers(0, 1 << 40) | st.text(max_size=9) | st.binary(max_size=300)
keys = st.text(min_size=1, max_size=8)


@st.composite
def bare_messages(draw: Any) -> bytes:
    """Properties, application properties and a body of any kind, as an engine writes them."""
    body = draw(values | st.lists(values, max_size=3) | st.dictionaries(keys, values, max_size=3))
    made = Message(body=body, inferred=draw(st.booleans()), subject=draw(st.text(max_size=9)))
    made.properties = draw(st.dictionaries(keys, values, max_size=3))
    octets = bytes(made.encode())
    return octets[octets.index(b"\x00Ss") :]


def around(message: Model, payload: bytes) -> bytes:
    octets = encoded(message)
    return octets[: octets.index(b"\x00Ss")] + payload


@settings(max_examples=60, deadline=None)
@given(place=routers(forms=st.just("amqp")), message=messages(), payload=bare_messages())
def test_the_payload_s_digest_is_the_same(router: Router, place: Place, message: Model, payload: bytes) -> None:
    """Through any workers that change none: of what leaves unwrapped, and of the copies of tees."""
    router.load(setup_of(Place("", place.workers, Access(), RULES)))
    found = outcome(router, around(message, payload))
    ends = list(explain(message, frozenset({"user:x"}), (Place("", place.workers, Access(), RULES),)))
    arrived = [step.arrived for step in ends if step.arrived is not None]
    if isinstance(found, str) or not all(one.payload == BODY for one in arrived):
        event("refused, or still wrapped")
        return
    event(f"{min(found.visits, 3)} workers")
    for octets in (found.octets, *found.copies):
        front, left = octets[: -len(payload)], octets[-len(payload) :]
        assert hashlib.sha256(left).digest() == hashlib.sha256(payload).digest()
        Message().decode(front + BODY)  # nothing but annotations stands in front of it


# ---- who sends is never what a return route says ----

guards = st.sets(st.sampled_from([*SOURCES, "worker:c2"]), max_size=2).map(frozenset)


@st.composite
def guarded(draw: Any) -> Place:
    by_address: dict[Any, Worker] = {}
    for address in POOL:
        worker = draw(workers(address, local(f"{address}.in")))
        by_address |= dict.fromkeys(worker.addresses, worker)
    listed = draw(st.dictionaries(st.sampled_from(POOL), guards, min_size=2, max_size=4))
    limits = RULES.limits._replace(returning=40)
    return Place("", by_address, Access(listed, {}), type(RULES)(limits, RULES.classes))


forged = st.lists(
    st.sampled_from([*POOL, *(local(name) for name in ("worker:a1", "user:alice", "local", "uplink:cloud"))]),
    max_size=6,
).map(tuple)


@settings(max_examples=80, deadline=None)
@given(guarded(), paths(5, 1), forged, st.sampled_from(SOURCES))
def test_no_return_route_opens_a_door(
    router: Router, place: Place, onward: Route, returning: Route, source: str
) -> None:
    """Whatever it names: the message goes where it goes with none, or is refused as it is with none."""
    router.load(setup_of(place))
    honest = outcome(router, encoded(new_message(onward, (), BODY)), source)
    lying = outcome(router, encoded(new_message(onward, returning, BODY)), source)
    if isinstance(honest, str):
        event(honest)
        assert lying == honest
        return
    assert not isinstance(lying, str)
    assert lying.first == honest.first


# ---- the backtrace property ----


def link(kind: str, near: str, far: str) -> list[Worker]:
    """The workers that one address stands for, and those by which a reply comes back."""
    at, cloud, form = local(near), local(f"{near}.c"), "bare" if kind == "bare" else "amqp"
    match kind:
        case "trace":
            return [Forward(address=at, trace=True)]
        case "pair" | "bare":
            made = {"address": local(f"{near}.u"), "trace": True, "trace_as": at, "form": form}
            return [Wrap(address=at, route=(local(f"{near}.u"),), form=form), Unwrap(**made)]
        case "proxy":
            hop = Forward(address=cloud, trace=True)
            return [Proxy(address=at, inner=local(f"{near}.in"), route=(cloud,)), hop]
    strip: Strip | None = {"strip": Count(1), "marker": ToMarker()}.get(kind)
    ends = [(near, far), (far, near)]
    return [Forward(address=cloud, trace=True)] + [
        Discovery(address=local(a), inner=local(f"{a}.in"), route=(cloud, local(f"{b}.in")), strip=strip)
        for a, b in ends
    ]


KINDS = ["trace", "pair", "bare", "proxy", "discovery", "strip", "marker"]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
def test_the_sender_sees_its_own_onward_route(router: Router, kinds: list[str]) -> None:
    """Through any chain of tracers, proxies, wrappers with their unwrappers and pairs of discovery workers: a
    reply finds its way, and its return route is the onward route of the question."""
    names = [f"w{n}" for n in range(len(kinds))]
    found = [one for name, kind in zip(names, kinds, strict=True) for one in link(kind, name, f"f.{name}")]
    router.load(setup_of(Place("", {address: one for one in found for address in one.addresses})))
    question = new_message((*map(local, names), local("bob")), (local("alice"),), BODY)
    there = said(router(encoded(question)).octets)
    assert there[0] == "bob"
    back: Route = tuple(map(local, there[1].split("=>")))
    answer = said(router(encoded(new_message(back, (local("bob"),), BODY))).octets)
    assert answer[:2] == ("alice", show_route(question.onward))
    assert answer[2] == "complete"


# ---- every limit that can be configured ----


def configured(text: str) -> SourceRoutesSetup:
    """What worker processes are told by a configuration."""
    found = parse(f"router {{\nid: A\n}}\nlistener {{\nport: 0\n}}\n{text}", "f.conf")
    return source_routes(found, Identities())


def limited(attribute: str, n: int) -> bytes:
    """A message of which `attribute` bounds something, with `n` of it."""
    made = Message(body=b"ping", inferred=True)
    onward: list[str] = ["f", "x"]
    returning = ["me"]
    more: dict[str, Any] = {}
    match attribute:
        case "hops":
            more["hops"] = ubyte(n - 1)
        case "onwardAddresses":
            onward = ["f"] + ["x"] * (n - 1)
        case "returnAddresses":
            returning = ["r"] * n
        case "addressOctets":
            onward = ["f", "x" * n]
        case "routeOctets":
            returning = ["r" * min(200, n - at) for at in range(0, n, 200)]
        case "nesting":
            onward, more["nesting"] = ["w", "x"], ubyte(n - 1)
        case "metadataKeys":
            more["meta"] = {symbol(f"k{i}"): True for i in range(n)}
        case "metadataOctets":
            more["meta"] = {symbol("k"): b"v" * (n - 1)}
    routes = {symbol("x-opt-route.onward"): onward, symbol("x-opt-route.return"): returning}
    made.annotations = {**routes, **{symbol(f"x-opt-route.{key}"): one for key, one in more.items()}}
    return bytes(made.encode())


LIMITED = [
    ("hops", 64, 3, "hops"), ("onwardAddresses", 32, 4, "onward"), ("returnAddresses", 64, 5, "return"),
    ("addressOctets", 255, 7, "address-octets"), ("routeOctets", 4096, 50, "route-octets"),
    ("nesting", 8, 2, "nesting"), ("metadataKeys", 16, 2, "metadata"),
    ("metadataOctets", 1024, 30, "metadata"),
]  # fmt: skip
TWO = "routeWorker {\nkind: forward\naddress: f\n}\nrouteWorker {\nkind: wrap\naddress: w\nroute: u\n}\n"


@pytest.mark.parametrize(("attribute", "default", "other", "reason"), LIMITED, ids=str)
def test_every_limit_is_what_is_configured(
    router: Router, attribute: str, default: int, other: int, reason: str
) -> None:
    """As much passes, and one more is refused by that reason: by default, and with another limit."""
    for most, text in ((default, TWO), (other, f"{TWO}sourceRoutes {{\n{attribute}: {other}\n}}\n")):
        router.load(configured(text))
        assert router(limited(attribute, most)).result == DONE
        assert outcome(router, limited(attribute, most + 1)) == reason


# ---- BARE, as worker processes write and read it ----

STEPS = [step for case in VECTORS["route_cases"] for step in case["steps"]]
IN_BARE = "".join(
    f"routeWorker {{\nkind: {kind}\naddress: {kind}\nformat: bare\n{rest}\n}}\n"
    for kind, rest in (("wrap", "route: out"), ("unwrap", ""))
)
LENIENT = "sourceRoutes {\nlenientTail: yes\n}\n"


def carrying(payload: bytes) -> bytes:
    return carried(["unwrap"], [], payload)


def carried(onward: list[str], returning: list[str], payload: bytes) -> bytes:
    made = Message(body=payload, inferred=True)
    made.annotations = {symbol("x-opt-route.onward"): onward, symbol("x-opt-route.return"): returning}
    return bytes(made.encode())


def body_of(octets: bytes) -> bytes:
    made = Message()
    made.decode(octets)
    return bytes(made.body)


def test_octets_of_every_step_of_the_examples(router: Router) -> None:
    """A wrapper writes them, and an unwrapper reads the message from them."""
    router.load(configured(IN_BARE))
    for step in STEPS:
        payload = bytes.fromhex(step["payload_hex"])
        wrapped = router(carried(["wrap", *step["onward"]], step["return"], payload))
        assert body_of(wrapped.octets).hex() == step["bare_hex"]
        opened = router(carrying(bytes.fromhex(step["bare_hex"])))
        found = said(opened.octets)
        assert found[:2] == ("=>".join(step["onward"]), "=>".join(step["return"]))
        assert body_of(opened.octets) == payload


WRONG = [
    *((one["name"], one["hex"]) for one in VECTORS["rejected"]),
    ("an optional value that begins with 2", "02010002423101000241310568656c6c6f02"),
    ("a number of eleven octets", "01" + "ff" * 11),
    ("a number of 65 bits", "01" + "ff" * 9 + "02"),
    ("data of 2^64-1 octets", "01010002423100ffffffffffffffffff01"),
    ("a context that is no text", "020100024231000101" + "01ff"),
    ("an empty address", "0101000000" + "00"),
]


@pytest.mark.parametrize("octets", [octets for _, octets in WRONG], ids=[name for name, _ in WRONG])
def test_what_must_be_rejected(router: Router, octets: str) -> None:
    """By name, at the worker that should unwrap it; and where tails are forgiven, all but a tail, too."""
    for more in ("", LENIENT):
        router.load(configured(IN_BARE + more))
        if more and octets == "01010002423101000241310568656c6c6f00":
            assert said(router(carrying(bytes.fromhex(octets))).octets)[:2] == ("B1", "A1")
            continue
        found = outcome(router, carrying(bytes.fromhex(octets)))
        assert found == ("onward" if octets.startswith("0180808080808080808001") else "bad-encoding")


@pytest.mark.parametrize("tail", ["01", "0000"])
def test_no_other_tail_is_forgiven(router: Router, tail: str) -> None:
    router.load(configured(IN_BARE + LENIENT))
    octets = bytes.fromhex("01010002423101000241310568656c6c6f" + tail)
    assert outcome(router, carrying(octets)) == "bad-encoding"


PAYLOADS = [
    ("00" "0470696e67", True), ("02" "016100" "016201" "78" "0470696e67", True),
    ("02" "016100" "016100" "00", False), ("8080808080808080808001", False), ("00" "0470696e6700", False),
    ("8000" "0470696e67", False), ("00" "0570696e67", False), ("", False),
]  # fmt: skip


@pytest.mark.parametrize(("octets", "good"), PAYLOADS, ids=str)
def test_maps_around_payloads(router: Router, octets: str, good: bool) -> None:
    """Keys are there once, numbers are short, and nothing follows."""
    router.load(configured("routeWorker {\nkind: payload-unwrap\naddress: unwrap\n}\n"))
    found = outcome(router, carried(["unwrap", "end"], [], bytes.fromhex(octets)))
    if not good:
        assert found == "bad-encoding"
        return
    assert not isinstance(found, str)
    assert found.octets.endswith(b"ping")
