"""The message log: lines like `[C17] Received Message{user-id=b"joe", subject="news"} on link 'a'`.

The lines have module MESSAGE and level info. The attribute messageLoggingComponents of listeners and
connectors selects the parts. A line shows only what stands in a message's first 4 KiB (message_log.c), and at
most 256 characters of each text.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from shm.contract.sections import section_code

MESSAGE = logging.getLogger("MESSAGE")

PROPERTIES: Final = (
    "message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type",
    "content-encoding", "absolute-expiry-time", "creation-time", "group-id", "group-sequence",
    "reply-to-group-id",
)  # fmt: skip
APPLICATION: Final = "app-properties"
COMPONENTS: Final = (*PROPERTIES, APPLICATION)
LONGEST: Final = 256  # characters of a text
_PROPERTIES_SECTION: Final = 0x73  # AMQP 1.0 part 3.2.4
_APPLICATION_SECTION: Final = 0x74  # AMQP 1.0 part 3.2.5


def components(text: str) -> list[str]:
    """Return the parts that messageLoggingComponents names: all, none, or a list. Raises ValueError."""
    words = [word.strip() for word in text.split(",")]
    if words == ["all"]:
        return list(COMPONENTS)
    if words == ["none"]:
        return []
    for word in words:
        if word not in COMPONENTS:
            raise ValueError(f"{word!r} is no part of a message")
    return [name for name in COMPONENTS if name in words]


class Switch(Protocol):
    """The part of workers.loop.pump.Trace that the message log uses."""

    def messages(self, index: int, generation: int, wanted: bool) -> None: ...


class MessageLog:
    """Logs messages of the connections that want it; ``number`` returns a connection's number."""

    def __init__(self, switch: Switch, number: Callable[[int], int]) -> None:
        self._switch = switch
        self._number = number
        self._parts: dict[int, list[str]] = {}  # by connection

    def opened(self, index: int, generation: int, parts: list[str]) -> None:
        """Log these parts of the messages of a new connection."""
        self._parts[index] = parts
        self._switch.messages(index, generation, bool(parts))

    def seen(self, index: int, link: str, sent: bool, beginning: bytes) -> None:
        """Log a received or sent message from its first bytes."""
        if not MESSAGE.isEnabledFor(logging.INFO):
            return
        verb = "Sent" if sent else "Received"
        text = described(beginning, self._parts.get(index, ()))
        MESSAGE.info("[C%d] %s Message{%s} on link %r", self._number(index), verb, text, link)


def described(beginning: bytes, parts: Collection[str]) -> str:
    """Return those of the parts that a message's first bytes contain, as `name=value`."""
    found: dict[str, Any] = {}
    try:
        for section, value, _ in (sections := list(_sections(beginning))):
            if section == _PROPERTIES_SECTION and isinstance(value, list):
                found |= {name: one for name, one in zip(PROPERTIES, value, strict=False) if one is not None}
            elif section == _APPLICATION_SECTION:
                found[APPLICATION] = value
        text = ", ".join(f"{name}={_text(found[name])}" for name in COMPONENTS if name in {*found} & {*parts})
        del sections  # not earlier: values may be views of the decoded data
    except RecursionError:  # a hostile message nests lists very deep
        return "…"
    return text


def _sections(rest: bytes) -> Iterator[tuple[int, Any, Any]]:
    """Yield code, value and decoder of each complete section before the body."""
    from proton import Data, Described, ProtonException  # noqa: PLC0415  only the message log needs it

    while rest:
        data = Data()
        try:
            used = data.decode(rest)
            data.next()
            value = data.get_object()
        except (ProtonException, ValueError, TypeError, OverflowError):  # a list as key, no such char
            return
        if used <= 0 or not isinstance(value, Described):
            return
        code = section_code(value.descriptor)
        if code is None or code > _APPLICATION_SECTION:
            return
        yield code, value.value, data
        rest = rest[used:]


def _text(value: Any) -> str:
    from proton import symbol, timestamp  # noqa: PLC0415  as above

    forms: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
        (type(None), lambda _: "null"),
        (bool, lambda v: "true" if v else "false"),
        (symbol, lambda v: ":" + _quoted(v)),
        (str, _quoted),
        ((bytes, bytearray, memoryview), lambda v: "b" + _quoted(bytes(v)[:LONGEST].decode("latin-1"))),
        (timestamp, lambda v: f'"{_time(v)}"'),
        (int, lambda v: str(int(v))),
        (float, lambda v: str(float(v))),
        (dict, lambda v: "{" + ", ".join(f"{_text(key)}={_text(one)}" for key, one in v.items()) + "}"),
        ((list, tuple), lambda v: "[" + ", ".join(map(_text, v)) + "]"),
    )
    write = next((write for kind, write in forms if isinstance(value, kind)), str)
    return write(value)


def _quoted(text: str) -> str:
    return json.dumps(str(text)[:LONGEST], ensure_ascii=False)


def _time(milliseconds: int) -> str:
    """Return a timestamp in milliseconds as UTC text, or as a number if no calendar has that date."""
    try:
        date = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(int(milliseconds))
    return f"{date}.{milliseconds % 1000:03} +0000"
