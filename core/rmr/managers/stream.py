"""Tables and maps from one sender's messages, in order (RMR's Route Table Guide, Sending Tables To RMR).

A table may arrive in any number of messages. When its end record agrees with it, ``install`` takes it into
use, and the sender gets the result. Whatever fails, the table in use stays. Each step parses one slice.

    idle --message--> reading --result--> installing --done--> reading --all read--> idle
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from core.rmr.managers.messages import STATE, Heard, Said, records, state
from core.rmr.tables import decoding
from core.rmr.tables.building import LONGEST_TABLE
from core.rmr.tables.parser import Parser, Result
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.warning import BadTableError
from shm.contract.text import printable

SLICE: Final = 48 * 1024  # characters parsed before other work may run
LONGEST_QUEUE: Final = 1 << 28  # octets that wait to be parsed
MESSAGE: Final = 1024  # octets for which a waiting message counts, besides its text
MOST_HELD: Final = 1 << 30  # octets of all senders of a table; each leaves others as much as it holds
MUCH: Final = 1 << 23  # octets whose end is worth a look at the heap

NO_BASE: Final = "the table in use is not from a Route Manager; send a whole table first"
FULL: Final = "too many octets wait to be read"
CUT: Final = "the connection was lost before the end of the table"

Install = Callable[[Table | MeidMap, Callable[[str], None]], None]
Answer = Callable[[Heard, Said], None]
Verdict = Callable[[Heard, str, str], None]  # message, table id, error; empty: accepted


class Held:
    """The octets that all senders of a table have waiting, or in tables without their ends.

    ``freed`` is called when most of many have gone.
    """

    def __init__(self, freed: Callable[[], None]) -> None:
        self.octets = 0
        self._most = 0
        self._freed = freed

    def add(self, more: int) -> None:
        """Hold so many more, or fewer."""
        self.octets += more
        self._most = max(self._most, self.octets)
        if self._most >= MUCH and self.octets <= self._most // 4:
            self._most = self.octets
            self._freed()


class Stream:
    """The tables that one connection sends.

    ``based`` returns whether the table in use can be updated. ``held`` is shared by all senders of the table.
    """

    def __init__(
        self, install: Install, based: Callable[[], bool], answer: Answer, report: Verdict, compatible: bool, held: Held
    ) -> None:
        self._held = held
        self._counted = 0  # of the octets held, this stream's
        self._install = install
        self._based = based
        self._answer = answer
        self._report = report
        self._compatible = compatible
        self._parser = Parser(compatible)
        self._waiting: deque[tuple[Heard, str]] = deque()
        self._waiting_size = 0
        self._at = 0  # position in the first waiting message
        self._size = 0  # of the unfinished table
        self._results: deque[Result] = deque()
        self._installing = False
        self._answered = False  # the current message has been answered once
        self._lost = False
        self._last = Heard(0, "", b"", "")

    @property
    def busy(self) -> bool:
        """Whether there is something to parse now."""
        return bool(self._waiting) and not self._installing

    @property
    def finished(self) -> bool:
        """Whether the connection is gone and all its messages are finished."""
        return self._lost and not self._waiting

    def message(self, heard: Heard) -> None:
        """Take a message with records."""
        text = records(heard.payload, self._compatible)
        heard = heard._replace(payload=b"")
        size = len(text) + MESSAGE
        if self._waiting_size + size > LONGEST_QUEUE or self._counted + self._held.octets + 2 * size > MOST_HELD:
            self._report(heard, "", FULL)
            self._answer(heard, Said(STATE, state("", FULL, bad=True), xact=heard.xact, call=heard.call))
            return
        self._waiting.append((heard, text))
        self._waiting_size += size
        self._count()

    def _count(self) -> None:
        """Count what this stream holds now among all that is held."""
        before, self._counted = self._counted, self._waiting_size + self._size + self._parser.kept
        self._held.add(self._counted - before)

    def step(self) -> None:
        """Parse a slice."""
        if not self.busy:
            return
        if not self._results:
            self._read(self._waiting[0][1])
        self._take()
        self._next()
        self._count()

    def give_up(self, reason: str) -> None:
        """Skip the current message, which cannot be parsed."""
        self._size = 0
        self._results.clear()
        self._installing = False
        self._parser = Parser(self._compatible)
        try:
            self._say(self._waiting[0][0], BadTableError("", reason, []))
        finally:
            self._shift()
            self._count()

    def lost(self) -> None:
        """Record that the connection is gone. Complete tables are still used."""
        self._lost = True
        if not self._waiting:
            self._cut()
            self._count()

    def _read(self, text: str) -> None:
        piece = text[self._at : self._at + SLICE]
        self._results.extend(self._parser.feed(piece))
        self._size += len(piece)
        self._at += len(piece)
        if self._results or self._parser.idle:
            self._size = 0
        elif self._size + self._parser.kept > LONGEST_TABLE:
            self._parser, self._size = Parser(self._compatible), 0
            self._results.append(BadTableError("", f"the table takes more than {LONGEST_TABLE} octets", []))

    def _next(self) -> None:
        """Finish a message that has been parsed to its end."""
        if not self._waiting or self._results or self._installing or self._at < len(self._waiting[0][1]):
            return
        if self._parser.idle:
            if self._parser.outside and not self._answered:  # no other answer covers it
                self._say(self._waiting[0][0], BadTableError("", str(self._parser.outside[0]), []))
            self._parser = Parser(self._compatible)  # line numbers start here
        self._shift()
        if self._lost and not self._waiting:
            self._cut()

    def _shift(self) -> None:
        """Go on to the next message."""
        self._last, text = self._waiting.popleft()
        self._waiting_size -= len(text) + MESSAGE
        self._at = 0
        self._answered = False

    def _cut(self) -> None:
        for result in self._parser.finish():
            if isinstance(result, BadTableError):
                self._report(self._last, result.table_id, CUT)
        self._size = 0

    def _take(self) -> None:
        """Use what has been parsed, in order."""
        if not self._results:
            return
        heard = self._waiting[0][0]
        while self._results and not self._installing:
            result = self._results.popleft()
            if isinstance(result, BadTableError):
                self._say(heard, result)
            elif isinstance(result, Table) and not result.complete and not self._based():
                self._say(heard, BadTableError(result.table_id, NO_BASE, []))
            else:
                self._use(heard, result)

    def _use(self, heard: Heard, value: Table | MeidMap) -> None:
        self._installing = True

        def done(reason: str) -> None:
            self._installing = False
            if reason:
                self._say(heard, BadTableError(value.table_id, printable(reason, decoding.LONGEST_SHOWN), []))
            else:
                self._report(heard, value.table_id, "")
                self._reply(heard, state(value.table_id))
            self._next()
            self._count()

        self._install(value, done)

    def _say(self, heard: Heard, error: BadTableError) -> None:
        """Report that a table was not used, and why."""
        self._report(heard, error.table_id, error.reason)
        self._reply(heard, state(error.named, error.reason, bad=True))

    def _reply(self, heard: Heard, payload: bytes) -> None:
        """Answer a message. Only the first answer carries the number of a blocking call.

        A second one would be taken for the answer to the next call.
        """
        if not self._lost:
            call = 0 if self._answered else heard.call
            self._answer(heard, Said(STATE, payload, xact=heard.xact, call=call))
        self._answered = True
