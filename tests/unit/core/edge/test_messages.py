"""What edge and interior routers say to each other (facts 10): octet for octet, and never believed."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from proton import Message

from core.edge import orders, words
from core.interior.message import BadMessageError

HEADER = "00 53 70 c0 02 01 42"
REPLY = "a1 01 72"  # "r"
CORRELATION = "a1 01 63"  # "c"
ASKED = words.Question("r", "c", "q1", True)
ENVELOPE = orders.Envelope("r", "c")


def compound(code: str, *parts: str) -> str:
    """A list8 (c0) or map8 (c1) of values in hexadecimal: size, count, values."""
    octets = bytes.fromhex("".join(parts))
    return f"{code} {len(octets) + 1:02x} {len(parts):02x} {octets.hex()}"


def text(value: str) -> str:
    return f"a1 {len(value):02x} {value.encode().hex()}"


def order(said: list[str], body: list[str]) -> str:
    """To the agent: properties with `to`, reply-to and correlation-id, then two maps of texts."""
    properties = compound("c0", "40", "40", text("$management"), "40", REPLY, CORRELATION)
    return (
        f"{HEADER} 00 53 73 {properties} 00 53 74 {compound('c1', *map(text, said))}"
        f"00 53 77 {compound('c1', *map(text, body))}"
    )


VECTORS = {
    "tracking": (words.tracking("M0q1", True), f"{HEADER} 00 53 77 c0 08 02 a1 04 4d307131 41"),
    "tracking of skrouterd": (words.tracking("M0q1", False, True), f"{HEADER} 00 53 77 c0 07 02 a1 03 4d7131 42"),
    "heartbeat": (words.heartbeat(7), f"{HEADER} 00 53 77 54 07"),
    "question": (
        words.ask("r", "c", "q1", True),
        f"{HEADER} 00 53 73 c0 0b 06 40 40 40 40 {REPLY} {CORRELATION}"
        "00 53 74 c1 16 04 a1 07 76657273696f6e 52 01 a1 06 6f70636f6465 52 01"
        "00 53 77 c0 06 02 a1 02 7131 41",
    ),
    "answer": (
        words.answer(ASKED, True, False),
        f"{HEADER} 00 53 73 c0 0b 06 40 40 {REPLY} 40 40 {CORRELATION}"
        "00 53 74 c1 20 06 a1 07 76657273696f6e 52 01 a1 06 6f70636f6465 52 01 a1 06 737461747573 52 00"
        "00 53 77 c0 03 02 41 42",
    ),
    "create": (
        orders.create(ENVELOPE, "n", "p", "in"),
        order(
            ["operation", "CREATE", "type", orders.TYPE, "name", "n"],
            ["type", orders.TYPE, "pattern", "p", "direction", "in", "name", "n"],
        ),
    ),
    "delete": (orders.delete(ENVELOPE, "4"), order(["operation", "DELETE", "type", orders.TYPE, "identity", "4"], [])),
}


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_of(name: str) -> None:
    composed, expected = VECTORS[name]
    assert composed.hex(" ") == bytes.fromhex(expected).hex(" ")


def read(content: bytes) -> Message:
    message = Message()
    message.decode(content)
    return message


def test_the_engine_reads_them() -> None:
    """The values that facts 10 name."""
    question, answer = read(VECTORS["question"][0]), read(VECTORS["answer"][0])
    assert (question.reply_to, question.correlation_id, question.body) == ("r", "c", ["q1", True])
    assert question.properties == {"version": 1, "opcode": 1}
    assert (answer.address, answer.correlation_id, answer.body) == ("r", "c", [True, False])
    assert answer.properties == {"version": 1, "opcode": 1, "status": 0}
    create = read(VECTORS["create"][0])
    assert create.properties == {"operation": "CREATE", "type": orders.TYPE, "name": "n"}
    assert create.body == {"type": orders.TYPE, "pattern": "p", "direction": "in", "name": "n"}


def replied(**more: Any) -> bytes:
    properties = {"statusCode": 201, "statusDescription": "Created"}
    return bytes(Message(correlation_id="c", properties=properties, body={"identity": "4"} | more).encode())


READERS: dict[str, tuple[Callable[[bytes], Any], bytes, Any]] = {
    "tracking": (words.tracked, VECTORS["tracking"][0], ("M0q1", True)),
    "question": (words.question, VECTORS["question"][0], ASKED),
    "answer": (words.answered, VECTORS["answer"][0], words.Answer("c", True, False)),
    "reply": (orders.replied, replied(), orders.Reply("c", 201, "Created", "4")),
}


@pytest.mark.parametrize("name", READERS)
def test_readers(name: str) -> None:
    """What was written is read; whatever else comes is a BadMessageError and nothing worse."""
    reader, content, meant = READERS[name]
    assert reader(content) == meant
    chance = random.Random(name)  # noqa: S311  repeatable, and keeps no secret
    refused = 0
    for _ in range(1000):
        wrong = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            wrong[chance.randrange(len(wrong))] = chance.randrange(256)
        del wrong[chance.randrange(len(wrong) * 2) :]
        try:
            assert type(reader(bytes(wrong))) is type(meant)
        except BadMessageError:
            refused += 1
    assert refused > 300
