"""Valid conversations of other routers with this one: of a neighbour in the network, and of an edge router."""

import random
from typing import Any

from core.edge import words
from core.interior.advertisement import Advertisement
from core.interior.hello import greeting
from core.interior.linkstate import LinkStateRequest, LinkStateUpdate
from core.interior.message import ALL_MOBILE, ALL_ROUTERS, NEXT_ROUTER
from core.interior.mobile import MobileRequest, MobileUpdate
from tests.support.clients.frame_client import disposition, flow, message, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    END,
    OPEN,
    SOURCE,
    TARGET,
    Described,
    Symbol,
    Uint,
    Ulong,
    encode,
    said,
    state,
)

IDS = ["hostile", "hostile", "hostile2", "h" * 127, "", "a/b"]
PRODUCTS = ["routerd", "qpid-dispatch-router", "skupper-router", "other"]
NUMBERS = [0, 1, 2, 7, 2**31 - 1, 2**31, 2**63 - 1]
KEYS = [
    "M0hostile/a",
    "M0hostile.mc/c",
    "M1hostile/b",
    "Chostile.routed",
    "Dhostile.routed",
    "Tx",
    "",
    "M0hostile/" + "ä" * 90,
]
PRIORITIES = 10
LISTEN = b""  # for credit
FRAME = 15_000  # octets of a message in a frame, at most
STREAMING = Symbol("qd.streaming-links")
BACK = {SOURCE: 10, TARGET: 6}  # the place of capabilities in a terminus


def opening(chance: random.Random, container: str) -> list[bytes]:
    """Header and OPEN of a router."""
    properties = {
        Symbol("product"): chance.choice(PRODUCTS),
        Symbol("version"): "1.19.0",
        Symbol("qd.inter-router-cost"): Uint(chance.choice([0, 1, 10, 2**31 - 1])),
        Symbol("qd.conn-id"): Uint(chance.randrange(9)),
    }
    capabilities = chance.choice([None, STREAMING, Symbol("qd.x")])
    return [
        AMQP_HEADER,
        said(OPEN, container=container, max_frame=16384, idle=16_000, offered=capabilities, desired=capabilities,
             properties=properties),
        said(BEGIN, next_out=0, in_window=2**31 - 1, out_window=2**31 - 1),
    ]  # fmt: skip


def attach(handle: int, receiver: bool, address: str | None, capability: str | None, credit: int = 250) -> bytes:
    """A link whose both ends have the capability and, at the router, the address."""
    far = SOURCE if receiver else TARGET
    ends = {}
    for end in (SOURCE, TARGET):
        fields: list[Any] = [None] * BACK[end] + [None if capability is None else Symbol(capability)]
        fields[0] = address if end == far else None
        ends[end] = Described(Ulong(end), fields)
    count = {} if receiver else {"count": 0}
    made = said(ATTACH, name=f"link.{handle}", handle=handle, receiver=receiver, source=ends[SOURCE],
                target=ends[TARGET], **count)  # fmt: skip
    return made + (flow(0, handle=handle, count=0, credit=credit) if receiver else b"")


def sent(handle: int, number: int, content: bytes, settled: bool = True) -> bytes:
    """A message in as many TRANSFERs as it needs."""
    pieces = [content[at : at + FRAME] for at in range(0, len(content), FRAME)] or [b""]
    return b"".join(
        transfer(None if at else number, piece, handle=handle, settled=settled, more=at < len(pieces) - 1)
        for at, piece in enumerate(pieces)
    )


def control(chance: random.Random, me: str) -> bytes:  # noqa: PLR0911 - one for each message
    """A message of the router protocol."""
    router, number = chance.choice([*IDS, me, f"r{chance.randrange(300)}"]), chance.choice(NUMBERS)
    to = chance.choice(
        [ALL_ROUTERS, ALL_MOBILE, NEXT_ROUTER, f"amqp:/_topo/0/{me}/qdrouter", "amqp:/_topo/0/far/qdrouter.ma"]
    )
    many = chance.choice([0, 1, 1, 3, 3, 30, 1000])
    keys = {f"{chance.choice(KEYS)}.{i}": chance.randrange(-1, 6) for i in range(many)}
    match chance.randrange(7):
        case 0:
            return LinkStateUpdate(router, number, number, {f"r{i}": i + 1 for i in range(min(many, 130))}).encode(to)
        case 1:
            return LinkStateRequest(router).encode(to)
        case 2:
            return Advertisement(router, number, number, chance.choice(NUMBERS)).encode()
        case 3:
            return MobileUpdate(router, number, keys, absolute=True, version=chance.choice([1, 2])).encode(to)
        case 4:
            return MobileUpdate(router, number, keys, tuple(keys), version=chance.choice([1, 2])).encode(to)
        case 5:
            return MobileRequest(router, number).encode(chance.choice([me, "far"]))
    return greeting(router, number, [me, "far"][: chance.randrange(3)], chance.choice([0, 1, 5]))


def annotated(chance: random.Random, to: str, me: str) -> bytes:
    """A message from another router, with the annotations of its way."""
    trace = [f"0/r{i}" for i in range(chance.choice([0, 1, 3, 200]))]
    annotations: dict[Any, Any] = {
        Symbol("x-opt-qd.ingress"): chance.choice(["0/hostile", f"0/{me}", "x", ""]),
        Symbol("x-opt-qd.trace"): chance.choice([trace, "no list", [*trace, f"0/{me}"]]),
        Symbol("x-opt-qd.to"): chance.choice([to, "", f"_topo/0/{me}/$management", "x" * 300]),
        Symbol("x-opt-qd.phase"): Uint(chance.choice([0, 1, 9, 10, 255])),
        Symbol("x-opt-qd.flags"): Uint(chance.choice([0, 1, 2**32 - 1])),
        Symbol("x-opt-qd."): "",
    }
    some = dict(chance.sample(list(annotations.items()), chance.randrange(len(annotations) + 1)))
    front = b"\0\x53\x72" + encode(some) + b"\0\x53\x73" + encode([None, None, to])
    return front + message("x" * chance.choice([0, 5, 200, 9_000, 40_000]))


def ends(chance: random.Random) -> list[bytes]:
    parts = [said(DETACH, handle=chance.randrange(22), closed=True), said(END), said(CLOSE)]
    return parts[: chance.randrange(4)]


def neighbour(chance: random.Random, me: str) -> list[bytes]:
    """A router of the network: control links, a pair for each priority, its protocol, messages that it passes on.

    ``me`` is the id of the router that it meets.
    """
    parts = opening(chance, "hostile")
    for pair in range(chance.choice([1, PRIORITIES + 1, PRIORITIES + 1, PRIORITIES + 3])):
        kind = "qd.router-data" if pair else "qd.router"
        parts.append(attach(2 * pair, False, None, kind) + attach(2 * pair + 1, True, None, kind))
    parts += [LISTEN, sent(0, 0, greeting("hostile", 1, [me])), LISTEN]
    number = 1
    for _ in range(chance.choice([5, 30, 100])):
        settled, what = chance.random() < 0.7, chance.randrange(4)
        if what == 1:
            parts.append(disposition(0, number, state=chance.choice([state(ACCEPTED), None]), receiver=True))
            continue
        if what == 0:
            to = chance.choice(["hostile/a", "hostile.mc/c", "nowhere", f"_topo/0/{me}/$management"])
            parts.append(sent(2 * chance.randrange(1, PRIORITIES + 1), number, annotated(chance, to, me), settled))
        else:
            parts.append(sent(0, number, control(chance, me), settled))
        number += 1
    return parts + ends(chance)


def question(chance: random.Random) -> bytes:
    """An edge router's question where an address leads."""
    properties = [None, None, None, None, chance.choice(["_edge/hostile/x", None, "amqp:/_edge/hostile/answers"])]
    properties.append(chance.choice(["1", None, "c" * 3000]))
    application = {"version": Uint(chance.choice([0, 1, 2])), "opcode": Uint(chance.choice([0, 1, 2]))}
    asked = [chance.choice(["hostile/a", "", "ä" * 300, None]), chance.random() < 0.5]
    return b"\0\x53\x73" + encode(properties) + b"\0\x53\x74" + encode(application) + b"\0\x53\x77" + encode(asked)


def edge(chance: random.Random) -> list[bytes]:
    """An edge router: what it attaches to an interior one, and what its clients send and receive."""
    parts = opening(chance, chance.choice(["hostile-edge", "hostile-edge", f"e{chance.randrange(50)}"]))
    parts += [
        attach(0, True, chance.choice(["hostile-edge", "other", None]), "qd.router-edge-downlink"),
        attach(1, True, "_$qd.edge_addr_tracking", None),
        attach(2, False, "_$qd.edge_heartbeat", None),
        attach(3, False, "_$qd.edge_address_lookup", None),
        attach(4, False, None, None),
    ]
    for handle in range(5, 5 + chance.choice([0, 3, 30])):
        address = chance.choice(["hostile/a", "hostile/b", "hostile.mc/c", "hostile/" + "ä" * 90])
        parts.append(attach(handle, chance.random() < 0.5, f"{address}.{chance.randrange(5)}", None))
    parts.append(LISTEN)
    number = 0
    for _ in range(chance.choice([5, 30, 100])):
        settled, what = chance.random() < 0.5, chance.randrange(5)
        if what == 0:
            parts.append(disposition(0, number, state=chance.choice([state(ACCEPTED), None]), receiver=True))
        elif what == 1:
            parts.append(said(DETACH, handle=chance.randrange(9), closed=chance.random() < 0.8))
        else:
            content = {2: words.heartbeat(chance.choice(NUMBERS)), 3: question(chance)}.get(what)
            addresses = ["hostile/a", "hostile/b", "hostile.mc/c"]
            content = annotated(chance, chance.choice(addresses), "hostile") if content is None else content
            parts.append(sent(what if what < 4 else chance.randrange(4, 9), number, content, settled))
            number += 1
    return parts + ends(chance)
