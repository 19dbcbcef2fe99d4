"""The fields of a record: separators, comments, white space, numbers, senders and endpoint groups."""

import re
from typing import Final

import msgspec

from core.rmr.tables import decoding
from core.rmr.tables.decoding import INT32
from core.rmr.tables.warning import TableWarning, Weight
from shm.contract.text import printable

MEID: Final = "%meid"  # stands for groups: the owner of the message's managed entity
GROUP_LIMIT: Final = 64  # limits of the RMR library
MEMBER_LIMIT: Final = 32
SENDER_LIMIT: Final = 127
FIELD_LIMIT: Final = 128
RESERVED: Final = range(100)  # message types that RMR uses itself and tables cannot route

_COMMENT: Final = re.compile(r"[ \t]#")
_ENDPOINT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,;|#\[\]]+):([0-9]{1,5})")


class Groups(msgspec.Struct, frozen=True):
    """The destinations of an entry: one copy per group to a member, or ``by_meid`` to the MEID's owner."""

    members: tuple[tuple[str, ...], ...] = ()
    by_meid: bool = False

    def __str__(self) -> str:
        return MEID if self.by_meid else ";".join(",".join(group) for group in self.members)


class MessageType(msgspec.Struct, frozen=True):
    """The second field of an entry. Without ``senders`` it applies to all senders."""

    number: int
    senders: tuple[str, ...] = ()


def split_record(record: str, compatible: bool = False) -> list[str]:
    """Return the fields of a record without surrounding white space and without the comment.

    The library, and so ``compatible``, first splits at the bars: a comment then ends with its field, and only
    a field's first # can begin one.
    """
    if "#" in record:
        if compatible and not record.lstrip().startswith("#"):
            return [_without_comment(field).strip() for field in record.split("|")]
        record = strip_comment(record)
    return [field.strip() for field in record.split("|")]


def _without_comment(field: str) -> str:
    at = field.find("#")
    return field[:at] if at > 0 and field[at - 1].isspace() else field


def strip_comment(record: str) -> str:
    """Return a record without its comment: # at its start or after white space begins one."""
    if record.lstrip().startswith("#"):
        return ""
    found = _COMMENT.search(record)
    return record[: found.start()] if found else record


def is_endpoint(text: str) -> bool:
    """Whether a text is ``host:port``, or ``[address]:port`` for IPv6."""
    found = _ENDPOINT.fullmatch(text)
    return found is not None and 0 < int(found[2]) < 65536 and not decoding.fault(text)


class Reader:
    """Decodes fields and remembers what it decoded, because tables repeat themselves.

    ``odd`` collects reasons against the current record, ``fatal`` those that spoil its table in both modes,
    ``harmless`` those that never do. ``compatible`` decodes as the library does.
    """

    def __init__(self, compatible: bool) -> None:
        self._compatible = compatible
        self.odd: list[str] = []
        self.fatal: list[str] = []
        self.harmless: list[str] = []
        self._groups: dict[str, Groups] = {}
        self._endpoints: dict[str, str] = {}  # known as valid in this spelling: each is one text for all entries

    def warnings(self, line: int, record: str) -> list[TableWarning]:
        """Return and clear the warnings since the last call."""
        kinds = (self.fatal, Weight.FATAL), (self.odd, Weight.ODD), (self.harmless, Weight.HARMLESS)
        found = [(reason, weight) for reasons, weight in kinds for reason in reasons]
        for reasons, _ in kinds:
            reasons.clear()
        longest = decoding.LONGEST_SHOWN
        shown = printable(record, longest)
        return [TableWarning(line, shown, printable(reason, longest), weight) for reason, weight in found]

    @property
    def waiting(self) -> bool:
        """Whether there are warnings since the last call."""
        return bool(self.odd or self.fatal or self.harmless)

    @property
    def names(self) -> int:
        """The number of endpoints and senders that it remembers."""
        return len(self._endpoints)

    def number(self, text: str, what: str) -> int:
        """Decode a signed 32-bit number."""
        number = decoding.number(text)
        if number is None:
            self.odd.append(f"{what} is no number")
            return decoding.number_before(text)
        if number not in INT32:
            self.odd.append(f"{what} does not fit into 32 bits")
        return decoding.clamped(number)

    def message_type(self, text: str) -> MessageType:
        """Decode ``mt`` or ``mt,sender[,sender...]``."""
        head, *senders = text.split(",")
        before = len(self.odd)
        number = self.number(head.strip(), "message type")
        if number in RESERVED and len(self.odd) == before:
            self.harmless.append(
                f"message types 0 to 99 are reserved for RMR itself: messages of type {number} are rejected"
            )
        return MessageType(number, self._senders(senders))

    def _senders(self, texts: list[str]) -> tuple[str, ...]:
        if len(texts) > SENDER_LIMIT:
            self.odd.append(f"more than {SENDER_LIMIT} senders")
            texts = texts[:SENDER_LIMIT]
        return tuple(filter(None, (self._endpoint(text, "sender") for text in texts)))

    def _endpoint(self, text: str, what: str) -> str:
        """Return an endpoint's name without surrounding white space, or an empty text."""
        name = text.strip()
        if not name:
            self.odd.append(f"an empty {what}")
        elif why := decoding.fault(name):
            self.fatal.append(f"{what} {printable(name, 80)!r} {why}")
        elif not is_endpoint(name):
            self.odd.append(f"{what} {name!r} is not host:port")
        elif name != text and self._compatible:
            self.odd.append(f"white space around {what} {name!r}: the RMR library does not find it")
            return text.lstrip() if what == "endpoint" else text  # its resolver skips leading white space
        elif name == text:
            return self._endpoints.setdefault(name, name)
        return name

    def groups(self, text: str) -> Groups:
        """Decode ``member,member;member...`` or ``%meid``."""
        known = self._groups.get(text)
        if known is not None:
            return known
        before = len(self.odd) + len(self.fatal)
        read = self._read_groups(text)
        if len(self.odd) + len(self.fatal) == before:
            self._groups[text] = read
        return read

    def _read_groups(self, text: str) -> Groups:
        texts = text.split(";")
        if texts[0].strip() == MEID:
            if len(texts) > 1:
                self.odd.append(f"groups after {MEID} are ignored")
            return Groups(by_meid=True)
        if len(texts) > GROUP_LIMIT:
            self.odd.append(f"more than {GROUP_LIMIT} groups")
            texts = texts[:GROUP_LIMIT]
        if len(texts) > 1 and not all(map(str.strip, texts)):
            self.odd.append("an empty group")
        groups = tuple(filter(None, map(self._members, texts)))
        if not groups:
            self.odd.append("no endpoint")
        return Groups(groups)

    def _members(self, text: str) -> tuple[str, ...]:
        texts = text.split(",") if text.strip() else []
        if len(texts) <= MEMBER_LIMIT and self._endpoints.keys() >= set(texts):
            return tuple(map(self._endpoints.__getitem__, texts))
        if len(texts) > MEMBER_LIMIT:
            self.odd.append(f"more than {MEMBER_LIMIT} endpoints in a group")
            texts = texts[:MEMBER_LIMIT]
        return tuple(filter(None, (self._endpoint(one, "endpoint") for one in texts)))
