"""The fields of a record: separators, comments, white space, numbers, senders and endpoint groups."""

import re
from typing import Final

import msgspec

from core.rmr import border
from core.rmr.border import INT32
from core.rmr.warning import TableWarning, Weight
from shm.contract.text import printable

MEID: Final = "%meid"  # in place of groups: the owner of the message's managed entity
GROUP_LIMIT: Final = 64  # the limits of the library (facts rmr 8)
MEMBER_LIMIT: Final = 32
SENDER_LIMIT: Final = 127
FIELD_LIMIT: Final = 128
RESERVED: Final = range(100)  # message types of RMR itself (spec; facts rmr 2): nobody routes by them

_COMMENT: Final = re.compile(r"[ \t]#")
_ENDPOINT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,;|#\[\]]+):([0-9]{1,5})")


class Groups(msgspec.Struct, frozen=True):
    """Where an entry leads: one copy to a member of each group, or, ``by_meid``, to the owner of the MEID."""

    members: tuple[tuple[str, ...], ...] = ()
    by_meid: bool = False

    def __str__(self) -> str:
        return MEID if self.by_meid else ";".join(",".join(group) for group in self.members)


class MessageType(msgspec.Struct, frozen=True):
    """The second field of an entry; ``senders`` empty: for messages of everybody."""

    number: int
    senders: tuple[str, ...] = ()


def split_record(record: str, compatible: bool = False) -> list[str]:
    """Fields without white space around them and without the comment at the end.

    The library, and so ``compatible``, looks for bars first: a comment ends with its field, and only the
    first # of a field may begin one (facts rmr 4).
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
    """A comment begins with # at the start of a record or behind white space (spec, Comments)."""
    if record.lstrip().startswith("#"):
        return ""
    found = _COMMENT.search(record)
    return record[: found.start()] if found else record


def is_endpoint(text: str) -> bool:
    """``host:port``, or ``[address]:port`` for IPv6."""
    found = _ENDPOINT.fullmatch(text)
    return found is not None and 0 < int(found[2]) < 65536 and not border.fault(text)


class Reader:
    """Reads fields. What was read once is known: tables repeat themselves.

    ``odd`` collects the reasons of oddities of the record at hand, ``fatal`` those that spoil its table in
    either way of reading, ``harmless`` those that spoil none; ``compatible`` reads as the library does.
    """

    def __init__(self, compatible: bool) -> None:
        self._compatible = compatible
        self.odd: list[str] = []
        self.fatal: list[str] = []
        self.harmless: list[str] = []
        self._groups: dict[str, Groups] = {}
        self._endpoints: set[str] = set()  # seen, and in order as they stand there

    def warnings(self, line: int, record: str) -> list[TableWarning]:
        """Those since the last call."""
        kinds = (self.fatal, Weight.FATAL), (self.odd, Weight.ODD), (self.harmless, Weight.HARMLESS)
        told = [(reason, weight) for reasons, weight in kinds for reason in reasons]
        for reasons, _ in kinds:
            reasons.clear()
        longest = border.LONGEST_SHOWN
        shown = printable(record, longest)
        return [TableWarning(line, shown, printable(reason, longest), weight) for reason, weight in told]

    @property
    def waiting(self) -> bool:
        """Whether there are oddities since the last call."""
        return bool(self.odd or self.fatal or self.harmless)

    def number(self, text: str, what: str) -> int:
        """A signed 32-bit number."""
        number = border.number(text)
        if number is None:
            self.odd.append(f"{what} is no number")
            return border.number_before(text)
        if number not in INT32:
            self.odd.append(f"{what} does not fit into 32 bits")
        return border.clamped(number)

    def message_type(self, text: str) -> MessageType:
        """``mt`` or ``mt,sender[,sender...]``."""
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
        """An endpoint's name; empty: none. White space around it is no part of it."""
        name = text.strip()
        if not name:
            self.odd.append(f"an empty {what}")
        elif why := border.fault(name):
            self.fatal.append(f"{what} {printable(name, 80)!r} {why}")
        elif not is_endpoint(name):
            self.odd.append(f"{what} {name!r} is not host:port")
        elif name != text and self._compatible:
            self.odd.append(f"white space around {what} {name!r}: the RMR library does not find it")
            return text.lstrip() if what == "endpoint" else text  # its resolver skips what is in front
        elif name == text:
            self._endpoints.add(text)
        return name

    def groups(self, text: str) -> Groups:
        """``member,member;member...`` or ``%meid``."""
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
                self.odd.append(f"groups behind {MEID} are not used")
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
        if len(texts) <= MEMBER_LIMIT and self._endpoints.issuperset(texts):
            return tuple(texts)
        if len(texts) > MEMBER_LIMIT:
            self.odd.append(f"more than {MEMBER_LIMIT} endpoints in a group")
            texts = texts[:MEMBER_LIMIT]
        return tuple(filter(None, (self._endpoint(one, "endpoint") for one in texts)))
