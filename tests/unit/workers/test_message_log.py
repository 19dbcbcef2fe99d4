"""Messages in the log: which parts, how they are written, and what a hostile message can do."""

import logging

import pytest
from proton import Message, symbol

from routerd.config import ConfigError, parse
from tests.support.values.spelled import SPELLINGS, spelled
from workers.control.message_log import COMPONENTS, LONGEST, MessageLog, components, described

MESSAGE = Message(
    id="123455",
    user_id=b"joe",
    subject='a "title"',
    reply_to="me",
    correlation_id=89,
    content_type="text/html",
    creation_time=1487772623.883,
    group_id="g",
    group_sequence=0,
    properties={"numbers": [10, 20], "word": symbol("O_one"), "yes": True, "none": None, "bytes": b"\xff"},
    body="x" * 100,
)


def test_every_part_of_a_message() -> None:
    """In the order of the specification; what a message does not have is left out."""
    text = described(MESSAGE.encode(), COMPONENTS)
    assert text.startswith('message-id="123455", user-id=b"joe", subject="a \\"title\\"", reply-to="me", ')
    assert 'correlation-id=89, content-type=:"text/html", ' in text
    assert 'creation-time="2017-02-22 14:10:23.883 +0000"' in text
    assert 'group-id="g", group-sequence=0' in text
    assert 'app-properties={"numbers"=[10, 20], "word"=:"O_one", "yes"=true, "none"=null, "bytes"=b' in text


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_sections_by_any_descriptor(spelling: int) -> None:
    """By number and by name the same is told."""
    whole = bytes(MESSAGE.encode())
    assert described(spelled(whole, [spelling]), COMPONENTS) == described(whole, COMPONENTS)


def test_only_what_is_wanted() -> None:
    wanted = components("subject, user-id")
    assert described(MESSAGE.encode(), wanted) == 'user-id=b"joe", subject="a \\"title\\""'
    assert described(MESSAGE.encode(), []) == ""


def test_a_message_that_is_cut_off_anywhere() -> None:
    """The parts that are there are told; nothing is raised."""
    whole = MESSAGE.encode()
    shown = {described(whole[:length], COMPONENTS) for length in range(len(whole) + 1)}
    assert "" in shown
    assert described(whole, COMPONENTS) in shown
    assert all(described(whole, COMPONENTS).startswith(text) for text in shown)


@pytest.mark.parametrize("noise", [b"\x00", b"\x00\x53\x73", b"\xff" * 40, b"\x00\x53\x73\xa1\x02ab", b"\xc0" * 4096])
def test_nonsense_is_no_part(noise: bytes) -> None:
    assert described(noise, COMPONENTS) == ""


@pytest.mark.parametrize("content", ["d1 00000006 00000002 45 40", "73 ffffffff"])
def test_a_value_that_python_has_not_is_no_part(content: str) -> None:
    """A map whose key is a list, and a char beyond Unicode, come from peers and end nobody's connection."""
    assert described(bytes.fromhex("005374" + content), COMPONENTS) == ""


def test_long_texts_are_cut() -> None:
    assert described(Message(subject="s" * 4000).encode(), ["subject"]) == f'subject="{"s" * LONGEST}"'


class Switch:
    """A pump that remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int, bool]] = []

    def messages(self, index: int, generation: int, wanted: bool) -> None:
        self.told.append((index, generation, wanted))


def test_the_pump_is_told_whose_messages_are_wanted(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody's, unless the listener says so."""
    caplog.set_level(logging.INFO, "MESSAGE")
    switch = Switch()
    log = MessageLog(switch, lambda index: index + 10)
    log.opened(1, 5, [])
    log.opened(2, 6, ["subject"])
    assert switch.told == [(1, 5, False), (2, 6, True)]
    log.seen(2, "a", False, MESSAGE.encode())
    log.seen(2, "b", True, MESSAGE.encode())
    assert [record.getMessage() for record in caplog.records] == [
        '[C12] Received Message{subject="a \\"title\\""} on link \'a\'',
        '[C12] Sent Message{subject="a \\"title\\""} on link \'b\'',
    ]


@pytest.mark.parametrize("entity", ["listener", "connector"])
def test_names_of_parts(entity: str) -> None:
    """Also by the former name of the attribute; an unknown one is a mistake that names them all."""
    assert components("all") == list(COMPONENTS)
    assert components("none") == []
    for name in ("messageLoggingComponents", "logMessage"):
        parse(f"{entity} {{\n port: 1\n {name}: user-id, app-properties\n}}\n", "f.conf")
        with pytest.raises(ConfigError, match=r"f.conf:3: .*'body' is no part of a message"):
            parse(f"{entity} {{\n port: 1\n {name}: subject,body\n}}\n", "f.conf")
