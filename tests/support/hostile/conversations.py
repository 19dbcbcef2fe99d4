"""Valid conversations with a router, of each of its protocols, as octets that a client writes one after the other."""

import random
from typing import Any

from routerd.source_routes.address import parse_route
from tests.model.ockam_framing import TODAY
from tests.model.ockam_framing import frame as ockam_frame
from tests.model.source_routes.message import new_message
from tests.support.clients import octets as amqp_octets
from tests.support.clients import rmr_frames
from tests.support.clients.frame_client import disposition, flow, message, termini, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    END,
    MODIFIED,
    OPEN,
    RECEIVED,
    REJECTED,
    RELEASED,
    Described,
    Symbol,
    Uint,
    Ulong,
    encode,
    said,
    state,
)

SASL_HEADER = b"AMQP\3\1\0\0"
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)


def sasl(code: int, *fields: Any) -> bytes:
    """A frame of a login."""
    return amqp_octets.frame(0, b"\0\x53" + bytes([code]) + encode(list(fields)), kind=1)


SASL = SASL_HEADER + sasl(INIT, Symbol("ANONYMOUS"), b"a@b")
NUMBERS = [0, 1, 2, 7, 250, 255, 256, 4096, 65_535, 2**31 - 1, 2**31, 2**32 - 1]
ADDRESSES = [
    "hostile/a",
    "hostile/b",
    "hostile/b",
    "hostile.mc/c",
    None,
    "",
    "$management",
    "_local/x",
    "hostile/" + "ä" * 90,
]
STATES = [
    state(ACCEPTED),
    state(RELEASED),
    state(REJECTED, Described(Ulong(0x1D), [Symbol("a:b"), "why", {Symbol("k"): "v"}])),
    state(MODIFIED, True, False, {Symbol("a"): "b"}),
    state(RECEIVED, Uint(0), Ulong(5)),
    None,
]


def sections(chance: random.Random) -> bytes:
    """A message, often with all that may stand before its body."""
    to = chance.choice(["hostile/a", "hostile.mc/c", "hostile/b"])
    front = [
        b"\0\x53\x70" + encode([True, amqp_octets.Ubyte(chance.randrange(12))]),
        b"\0\x53\x72" + encode({Symbol("x-opt-k"): "v" * chance.choice([1, 40, 3000])}),
        b"\0\x53\x73" + encode([Ulong(1), b"user", to, "subject", "reply"]),
        b"\0\x53\x74" + encode({"mt": Uint(1004), "sid": Uint(1)}),
    ]
    body = chance.choice([message("x" * chance.choice([0, 5, 200, 9_000])), b"\0\x53\x75\xa0\x03abc"])
    return b"".join(one for one in front if chance.random() < 0.4) + body


def amqp(chance: random.Random) -> list[bytes]:
    """Sessions, links of all kinds, transfers in pieces, outcomes, flows and ends."""
    parts = [SASL] if chance.random() < 0.3 else []
    limits = chance.choice([{}, {"max_frame": 512}, {"channel_max": 10}, {"idle": 2000}])
    parts += [
        AMQP_HEADER,
        said(OPEN, container=f"hostile-{chance.randrange(9)}" * chance.choice([1, 1, 1, 900]), hostname="h", **limits),
    ]
    channels = range(chance.choice([1, 1, 2, 20]))
    for channel in channels:
        window = chance.choice([0, 1, 100, 2**31 - 1])
        parts.append(said(BEGIN, channel, next_out=0, in_window=window, out_window=window))
        parts += [attach(chance, channel, handle) for handle in range(chance.choice([1, 2, 4, 30]))]
    number = 0
    for _ in range(chance.choice([3, 20, 60])):
        part, number = action(chance, chance.choice(channels), chance.randrange(4), number)
        parts.append(part)
    ends = [said(DETACH, handle=0, closed=chance.random() < 0.5), said(END), said(CLOSE)]
    return parts + ends[: chance.randrange(4)]


FIRST_WORDS = [
    ("ANONYMOUS", b"a@b"),
    ("PLAIN", b"\0alice\0secret"),
    ("PLAIN", b"\0\xff\xfe\0" + b"p" * 300),
    ("SCRAM-SHA-256", b"n,,n=alice,r=" + b"r" * 24),
    ("SCRAM-SHA-256", b"n,a=root,n=" + b"u" * 900 + b",r=,"),
    ("EXTERNAL", b"alice"),
    ("X" * 200, b""),
]
VALUES: list[Any] = [None, b"x", b"v" * 4000, "PLAIN", Symbol("PLAIN"), [Symbol("X")], {}, True, Uint(0), Ulong(2**63)]


def login(chance: random.Random) -> list[bytes]:
    """A SASL exchange, with steps in any order and fields of any type, and what follows when it has succeeded."""
    parts = [SASL_HEADER]
    for _ in range(chance.choice([1, 1, 2, 4, 30])):
        mechanism, first = chance.choice(FIRST_WORDS)
        match chance.randrange(5):
            case 0:
                some = [chance.choice(VALUES) for _ in range(chance.randrange(4))]
                parts.append(sasl(chance.choice([MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME]), *some))
            case 1:
                parts.append(sasl(RESPONSE, chance.choice([b"c=biws,r=x,p=AAAA", b"", b"r" * 700])))
            case _:
                parts.append(sasl(INIT, Symbol(mechanism), first, chance.choice([None, "h", "h" * 300])))
    behind = [AMQP_HEADER, said(OPEN, container="hostile-login"), said(BEGIN, next_out=0, in_window=1, out_window=1)]
    return [b"".join(parts), *behind] if chance.random() < 0.5 else parts + behind


def attach(chance: random.Random, channel: int, handle: int) -> bytes:
    receiver = chance.random() < 0.5
    fields: dict[str, Any] = {} if receiver else {"count": 0}
    if chance.random() < 0.3:
        fields |= {"snd_mode": chance.randrange(3), "rcv_mode": chance.randrange(2)}
    ends = termini(receiver, chance.choice(ADDRESSES))
    name = f"link-{channel}-{handle}" + "é" * chance.choice([0, 0, 0, 4000])
    made = said(ATTACH, channel, name=name, handle=handle, receiver=receiver, **ends, **fields)
    return made + (flow(channel, handle=handle, count=0, credit=chance.choice(NUMBERS)) if receiver else b"")


def action(chance: random.Random, channel: int, handle: int, number: int) -> tuple[bytes, int]:
    """What a client says while its links are open, and the next delivery-id."""
    match chance.randrange(8):
        case 0:
            fields = {
                "count": chance.choice([0, number]),
                "credit": chance.choice(NUMBERS),
                "drain": chance.random() < 0.3,
            }
            return flow(channel, handle=handle, echo=chance.random() < 0.5, **fields), number
        case 1:
            first = chance.choice([0, number, chance.choice(NUMBERS)])
            last = chance.choice([None, number, chance.choice(NUMBERS)])
            roles = {"receiver": chance.random() < 0.7, "settled": chance.random() < 0.7}
            return disposition(first, last, channel, state=chance.choice(STATES), **roles), number
        case 2:
            again = attach(chance, channel, handle)
            return said(DETACH, channel, handle=handle, closed=chance.random() < 0.5) + again, number
        case 3:
            text = sections(chance)
            pieces = [text[at : at + 7] for at in range(0, min(len(text), 700), 7)]
            frames = [transfer(None if at else number, piece, channel, handle=handle, more=True)
                      for at, piece in enumerate(pieces)]  # fmt: skip
            aborted = chance.random() < 0.3
            frames.append(transfer(None, text[700:8_000], channel, handle=handle, aborted=aborted))
            return b"".join(frames), number + 1
    settled = chance.random() < 0.4
    payload = sections(chance)[:15_000]
    return transfer(
        number, payload, channel, handle=handle, settled=settled, format=chance.choice([0, 0, 1])
    ), number + 1


def management(chance: random.Random) -> list[bytes]:
    """Requests to the management agent, some of them of things that there are."""
    ends = termini(False, "$management")
    parts = [
        AMQP_HEADER,
        said(OPEN, container="hostile-manager"),
        said(BEGIN, next_out=0, in_window=2000, out_window=2000),
    ]
    parts.append(said(ATTACH, name="l", handle=0, receiver=False, count=0, **ends))
    parts.append(said(ATTACH, name="r", handle=1, receiver=True, **termini(True, "hostile/replies")))
    parts.append(flow(0, handle=1, count=0, credit=1000))
    for number in range(chance.choice([1, 5, 30])):
        properties: dict[Any, Any] = {
            "operation": chance.choice(
                ["QUERY", "READ", "UPDATE", "CREATE", "DELETE", "GET-TYPES", "GET-LOG", "X", ""]
            ),
            "type": chance.choice(["org.amqp.management", "listener", "log", "dummy", "router.link", "é" * 300]),
            "entityType": chance.choice(["connection", "router.address", "allocator", "nothing"]),
            "name": chance.choice(["self", "x", "log/ROUTER", "n" * 5000]),
            chance.choice(["count", "offset"]): Uint(chance.choice(NUMBERS)),
        }
        some = dict(chance.sample(sorted(properties.items()), chance.randrange(1, 6)))
        body: dict[Any, Any] = {"attributeNames": chance.choice([[], ["name"], ["x"] * 2000]), "module": "DEFAULT"}
        front = b"\0\x53\x73" + encode([Ulong(number), b"", "$management", "", "hostile/replies", Ulong(number)])
        text = front + b"\0\x53\x74" + encode(some) + b"\0\x53\x77" + encode(chance.choice([body, {}, [], None]))
        parts.append(transfer(number, text[:16_000], settled=chance.random() < 0.5))
    return parts


def rmr(chance: random.Random) -> list[bytes]:
    """Frames of an RMR application, among them those that ask for tables and answers to nothing."""
    parts = []
    for _ in range(chance.choice([1, 5, 40])):
        kind = chance.choice([1004, 1005, 0, -1, 20, 21, 22, 23, 2**31 - 1])
        payload = chance.choice([b"", b"x" * 100, b"newrt|start\nmse|1004|-1|a:1\n", b"table|request\n", b"x" * 20_000])
        name = chance.choice(["127.0.0.1:1", "hostile:4560", "h" * 60, ""])
        frame = rmr_frames.Frame(
            kind, payload, subscription=chance.choice([-1, 0, 5]), source=name, source_ip=name,
            meid=chance.choice(["", "meid"]), trace=b"t" * chance.choice([0, 30]), flags=chance.choice([0, 4]),
        )  # fmt: skip
        parts.append(rmr_frames.encode(frame))
    return parts


def ockam(chance: random.Random) -> list[bytes]:
    """Messages with source routes, through the router and back."""
    onward = ["hop", "loop", "hop=>hop=>hop", "nowhere", "today.q", "hop=>" * 20 + "hop"]
    parts = [TODAY.preamble]
    for _ in range(chance.choice([1, 5, 40])):
        payload = b"x" * chance.choice([0, 10, 5_000])
        made = new_message(
            parse_route(chance.choice(onward)), parse_route(chance.choice(["", "F3", "a=>b"])), payload, None
        )
        parts.append(ockam_frame(made, TODAY))
    return parts


def http(chance: random.Random) -> list[bytes]:
    """Requests to the exporter, several on a connection."""
    parts = []
    for _ in range(chance.choice([1, 1, 4, 50])):
        path = chance.choice(
            ["/", "/metrics", "/healthz", "/readyz", "/page", "/metrics?name[]=x", "/%ff%00", "/" + "a" * 3000]
        )
        method = chance.choice(["GET", "GET", "HEAD", "POST", "OPTIONS", "G\xc9T"])
        lines = [f"{method} {path} HTTP/{chance.choice(['1.1', '1.1', '1.0', '9.9'])}", "Host: localhost"]
        lines += chance.choice([[], ["Connection: close"], ["Accept: a/b;q=" + "9" * 400], ["X-Many: y"] * 300])
        lines += chance.choice([[], ["Content-Length: 5"], ["Content-Length: -1"], ["Transfer-Encoding: chunked"]])
        parts.append("\r\n".join([*lines, "", ""]).encode("latin-1"))
    return parts
