"""A string is UTF-8 and a symbol is ASCII (AMQP 1.0 parts 1.6.20, 1.6.21): other octets name nobody."""

from typing import Any

import pytest

from tests.support.beds.conformance import Connect
from tests.support.clients.frame_client import FrameClient, disposition, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    AMQP_HEADER,
    DETACH,
    OPEN,
    RELEASED,
    SOURCE,
    TARGET,
    TRANSFER,
    Described,
    Encoded,
    Symbol,
    Uint,
    Ulong,
    said,
    state,
)
from tests.support.running import RunningRouter

DECODE, INVALID = "amqp:decode-error", "amqp:invalid-field"


def string(octets: bytes) -> Encoded:
    return Encoded(b"\xa1" + bytes((len(octets),)) + octets)


def symbol(octets: bytes) -> Encoded:
    return Encoded(b"\xa3" + bytes((len(octets),)) + octets)


def symbols(*octets: bytes) -> Encoded:
    """An array."""
    content = b"".join(bytes((len(one),)) + one for one in octets)
    return Encoded(b"\xe0" + bytes((len(content) + 2, len(octets))) + b"\xa3" + content)


def end(code: int, address: Any, *others: Any) -> Described:
    """A source or target; ``others`` follow its address."""
    return Described(Ulong(code), [address, *others])


def error_of(frame: Any) -> tuple[str, str]:
    condition, description = frame["error"].value[:2]
    return str(condition), description


# ---- OPEN ----

NO_OPEN = {
    "container-id": ({"container": string(b"it\x81")}, DECODE, r'the container-id is not UTF-8: "it\x81"'),
    "long container-id": (
        {"container": Encoded(b"\xb1\0\0\1\0" + b"a" * 255 + b"\xff")},
        DECODE,
        "the container-id is not UTF-8",
    ),
    "surrogate": ({"container": string(b"\xed\xa0\x80")}, DECODE, r'the container-id is not UTF-8: "\xed\xa0\x80"'),
    "container-id with NUL": ({"container": string(b"a\0b")}, INVALID, r'the container-id has a NUL: "a\x00b"'),
    "hostname": ({"hostname": string(b"h\xff\\")}, DECODE, r'the hostname is not UTF-8: "h\xff\\"'),
    "hostname with NUL": ({"hostname": string(b"\0")}, INVALID, r'the hostname has a NUL: "\x00"'),
    "locale": ({"locales": symbols(b"en-GB", b"k\xf6ln")}, DECODE, r'outgoing-locales is not ASCII: "k\xf6ln"'),
    "offered": ({"offered": symbol("gö".encode())}, DECODE, r'offered-capabilities is not ASCII: "g\xc3\xb6"'),
    "desired": ({"desired": symbols(b"a", b"\x80")}, DECODE, r'desired-capabilities is not ASCII: "\x80"'),
    "key": ({"properties": {symbol(b"\xff"): Uint(1)}}, DECODE, r'properties is not ASCII: "\xff"'),
    "value": ({"properties": {Symbol("product"): string(b"\xc3")}}, DECODE, r'properties is not UTF-8: "\xc3"'),
    "inner value": (
        {"properties": {Symbol("a"): [{"b": Described(Symbol("c"), string(b"\xc3("))}]}},
        DECODE,
        r'properties is not UTF-8: "\xc3("',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "condition", "why"), NO_OPEN.values(), ids=NO_OPEN)
def test_an_open_with_what_is_no_text_is_closed(
    router: RunningRouter, fields: dict[str, Any], condition: str, why: str
) -> None:
    client = FrameClient(router.address)
    with client.socket:
        client.write(AMQP_HEADER, said(OPEN, **{"container": "texts", **fields}))
        client.answer_to_open()
        told = error_of(client.end_of_connection())
    assert told[0] == condition
    assert why in told[1]


def test_texts_of_any_script_are_texts(connect: Connect, name: str) -> None:
    """So are NULs where nothing is named, and octets that are binary."""
    properties = {Symbol("a"): "größe €\U0001f600\0", Symbol("b"): b"\xff"}
    client = connect(container="größe €\U0001f600", hostname="köln", properties=properties)
    address = f"{name}.größe €\U0001f600"
    client.receiver(address, 0, credit=1)
    client.sender(address, 1)
    client.write(transfer(0, handle=1))
    (got,) = client.take(1, 0)
    client.write(disposition(got["id"], state=state(ACCEPTED)))
    assert client.settled(0, 0) == [state(ACCEPTED)]


# ---- ATTACH ----

NO_END = {
    "address": ([string(b"coll/\x81")], DECODE, r'the address of the %s is not UTF-8: "coll/\x81"'),
    "address with NUL": ([string(b"a\0b")], INVALID, r'the address of the %s has a NUL: "a\x00b"'),
    "long address": (
        [Encoded(b"\xb1\0\0\1\0" + b"a" * 255 + b"\xff")],
        DECODE,
        'the address of the %s is not UTF-8: "' + "a" * 64 + '"...',
    ),
    "properties of its node": (["a", None, None, None, None, {symbol(b"\x80"): Uint(1)}], DECODE,
                               r'dynamic-node-properties of the %s is not ASCII: "\x80"'),
}  # fmt: skip
SOURCES = {
    "filter": (["a", *[None] * 6, {Symbol("s"): Described(Symbol("f"), string(b"x='\xfc'"))}], DECODE,
               'filter of the source is not UTF-8: "x=\'\\xfc\'"'),
    "outcome": (["a", *[None] * 8, symbols(b"amqp:accepted:list", b"\xff")], DECODE,
                r'outcomes of the source is not ASCII: "\xff"'),
    "capability": (["a", *[None] * 9, symbol(b"q\xff")], DECODE, r'capabilities of the source is not ASCII: "q\xff"'),
}  # fmt: skip
TARGETS = {
    "capability": (["a", *[None] * 5, symbol(b"q\xff")], DECODE, r'capabilities of the target is not ASCII: "q\xff"')
}
REFUSED = [
    *((SOURCE, *one) for one in (*NO_END.values(), *SOURCES.values())),
    *((TARGET, *one) for one in (*NO_END.values(), *TARGETS.values())),
]


@pytest.mark.parametrize("receiver", [True, False], ids=["receiver", "sender"])
@pytest.mark.parametrize(("code", "fields", "condition", "why"), REFUSED)
def test_a_link_with_what_is_no_text_is_refused(
    connect: Connect, receiver: bool, code: int, fields: list[Any], condition: str, why: str
) -> None:
    """2.6.3: with null termini, and a DETACH that says why. Its session goes on; the handle is free again."""
    client = connect()
    which = {SOURCE: "source", TARGET: "target"}[code]
    client.write(client.attaching("elsewhere", 0, receiver, **{which: end(code, *fields)}))
    got = client.attached(0)
    assert got["source"] is None or got["source"].value[:1] in ([], [None])
    assert got["target"] is None or got["target"].value[:1] in ([], [None])
    ending = client.expect(DETACH, 0, handle=got["handle"])
    told, expected = error_of(ending), why.replace("%s", which)
    assert (told[0], ending["closed"]) == (condition, True)
    assert expected in told[1]
    client.write(said(DETACH, handle=0, closed=True))
    client.receiver("conformance.again")
    assert client.round_trip() == []


@pytest.mark.parametrize("fields", [{"properties": {Symbol("a"): string(b"\xff")}}, {"desired": symbols(b"\xff")}])
def test_a_link_whose_properties_are_no_text_is_refused(connect: Connect, fields: dict[str, Any]) -> None:
    client = connect()
    client.write(client.attaching("elsewhere", 0, False, **fields))
    got = client.attached(0)
    assert error_of(client.expect(DETACH, 0, handle=got["handle"]))[0] == DECODE


@pytest.mark.parametrize(
    ("octets", "condition", "why"),
    [
        (b"l\xff", DECODE, r'the name of a link is not UTF-8: "l\xff"'),
        (b"l\0m", INVALID, r'the name of a link has a NUL: "l\x00m"'),
    ],
)
def test_a_name_that_is_no_text_ends_its_session(connect: Connect, octets: bytes, condition: str, why: str) -> None:
    """No ATTACH of the router's could repeat it."""
    client = connect(2)
    client.write(client.attaching("elsewhere", 0, False, name=string(octets)))
    assert error_of(client.ended()) == (condition, why)
    client.receiver("conformance.again", channel=1)


def test_octets_that_are_no_text_are_nobodys_address(connect: Connect, name: str) -> None:
    """Two such addresses were one, and that with U+FFFD."""
    watcher, client = connect(), connect()
    watcher.receiver(f"{name}/\ufffd", 0, credit=9)
    for handle, receiver in ((0, True), (1, False)):
        ends = end(SOURCE if receiver else TARGET, string(name.encode() + b"/" + bytes((0x80 + handle,))))
        client.write(client.attaching("", handle, receiver, **{"source" if receiver else "target": ends}))
        got = client.attached(handle)
        assert error_of(client.expect(DETACH, 0, handle=got["handle"]))[0] == DECODE
    client.sender(None, 2)
    to = string(name.encode() + b"/\x81")
    body = b"\0\x53\x73\xc0" + bytes((len(to) + 3, 3)) + b"\x40\x40" + to + b"\0\x53\x77\xa1\1x"
    client.write(transfer(0, body, handle=2))
    assert client.settled(0, 0) == [state(RELEASED)]
    assert not [got for got in watcher.round_trip() if got.code == TRANSFER]
