"""Messages as log lines: `[C17] Received Message{user-id=b"joe", subject="news"} on link 'a'`.

Module MESSAGE, level info. A listener or connector with messageLoggingComponents says which parts. Of one
message no more is told than its first 4 KiB have (message_log.h), and of each text a part.
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
_PROPERTIES_SECTION: Final = 0x73  # AMQP 3.2.4
_APPLICATION_SECTION: Final = 0x74  # AMQP 3.2.5


def components(text: str) -> list[str]:
    """The parts that an attribute names: `all`, `none`, or names and commas. Raises ValueError."""
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
    """What is asked of workers.loop.pump.Trace."""

    def messages(self, index: int, generation: int, wanted: bool) -> None: ...


class MessageLog:
    """Which parts of whose messages are logged; ``number`` gives the number of a connection."""

    def __init__(self, switch: Switch, number: Callable[[int], int]) -> None:
        self._switch = switch
        self._number = number
        self._parts: dict[int, list[str]] = {}  # by connection

    def opened(self, index: int, generation: int, parts: list[str]) -> None:
        """A connection has been opened, and these parts of its messages are wanted."""
        self._parts[index] = parts
        self._switch.messages(index, generation, bool(parts))

    def seen(self, index: int, link: str, sent: bool, beginning: bytes) -> None:
        """A message has come, or begins to be sent."""
        if not MESSAGE.isEnabledFor(logging.INFO):
            return
        verb = "Sent" if sent else "Received"
        told = described(beginning, self._parts.get(index, ()))
        MESSAGE.info("[C%d] %s Message{%s} on link %r", self._number(index), verb, told, link)


def described(beginning: bytes, parts: Collection[str]) -> str:
    """The parts of a message that it has, as `name=value`, from its first bytes."""
    found: dict[str, Any] = {}
    try:
        for section, value, _ in (sections := list(_sections(beginning))):
            if section == _PROPERTIES_SECTION and isinstance(value, list):
                found |= {name: one for name, one in zip(PROPERTIES, value, strict=False) if one is not None}
            elif section == _APPLICATION_SECTION:
                found[APPLICATION] = value
        text = ", ".join(f"{name}={_text(found[name])}" for name in COMPONENTS if name in {*found} & {*parts})
        del sections  # until here: values may be views of what is decoded there
    except RecursionError:  # lists in lists in lists: somebody is trying
        return "…"
    return text


def _sections(rest: bytes) -> Iterator[tuple[int, Any, Any]]:
    """Those in front of the body that are there as a whole: their descriptors' codes and values."""
    from proton import Data, Described, ProtonException  # noqa: PLC0415  where nothing is logged it is not needed

    while rest:
        data = Data()
        try:
            used = data.decode(rest)
            data.next()
            value = data.get_object()
        except (ProtonException, UnicodeDecodeError, ValueError):
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
    """A timestamp, in UTC; as a number if it is none that a calendar has."""
    try:
        date = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(int(milliseconds))
    return f"{date}.{milliseconds % 1000:03} +0000"
