"""Parses and builds texts of route tables next to the core's work, one after the other; those who push take turns.

A *feed* is one source of records: a seed file, one push, a Route Manager's connection. The result of a text
is one *Made*: the resulting table and map, and what became of each part, in order. The core takes a Made into
use as a whole, so a table and its map change together.
"""

import gc
import logging
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from errno import EFBIG
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Final
from weakref import WeakKeyDictionary

import msgspec

from core.rmr.active.compiled import (
    CompiledOwners,
    CompiledTable,
    compacted,
    compile_owners,
    compile_table,
    moved,
    updated,
)
from core.rmr.active.snapshot import Keeper, Kept, SnapshotError, Use, read
from core.rmr.tables.building import KEPT, LONGEST_TABLE
from core.rmr.tables.decoding import lossless
from core.rmr.tables.parser import Parser, Result
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.warning import BadTableError
from shm.contract.failures import AGAIN_SECONDS, failures, start_thread
from shm.contract.garbage import still
from shm.contract.turns import Turns

LOGGER = logging.getLogger("ROUTER_CORE")

PIECE: Final = 1 << 14  # characters parsed before the core can have the interpreter lock

FILE_LIMIT: Final = 1 << 30  # octets of a seed file
CLOSE_SECONDS: Final = 5.0  # for the last snapshots when the core stops

ENTRY: Final = 64  # octets for which an entry in use counts
WEIGHT: Final = 4096  # octets for which a waiting text counts, besides itself

TOO_EARLY: Final = "an update before any table"
DROPPED: Final = "other tables needed the memory for tables that have begun; push it again, from its beginning"


# Records, a file of records, or a value that was parsed before.
Text = str | Path | Table | MeidMap


class Outcome(msgspec.Struct, frozen=True):
    """What became of one table or map. ``kind`` is table, update or map; an empty ``reason`` means in use."""

    kind: str
    table_id: str
    reason: str = ""
    entries: int = 0

    @property
    def ok(self) -> bool:
        return not self.reason


class Made(msgspec.Struct):
    """The result of a text. None stands for an unchanged table or map.

    ``moved`` maps each endpoint number of the former table to its present one, ``moved_owners`` likewise for
    owners. ``values`` are the accepted tables, updates and maps in order. ``kept`` is a snapshot's
    description of itself.
    """

    feed: "Feed"
    outcomes: list[Outcome]
    table: CompiledTable | None = None
    owners: CompiledOwners | None = None
    moved: "array[int]" = msgspec.field(default_factory=lambda: array("I"))
    moved_owners: "array[int]" = msgspec.field(default_factory=lambda: array("I"))
    values: list[Table | MeidMap] = []
    kept: Kept | None = None


class Values:
    """The table and map after the last text. They may not be in use yet."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.table: Table | None = None
        self.owners: dict[str, str] = {}
        self._endpoints: dict[str, int] = {}
        self._owners: dict[str, int] = {}

    def build(self, made: Made) -> None:
        """Build the table and the map if ``made.values`` has changed them. They replace those built last."""
        if self.table is not None and any(isinstance(one, Table) for one in made.values):
            made.table = compile_table(self.table, self.seed)
            shorter = compacted(self.table, made.table.native.entries)
            if shorter is not self.table:
                self.table, made.table = shorter, compile_table(shorter, self.seed)
            made.moved = moved(self._endpoints, made.table.endpoints)
            self._endpoints = made.table.endpoints
        if any(isinstance(one, MeidMap) for one in made.values):
            made.owners = compile_owners(self.owners, self.seed)
            made.moved_owners = moved(self._owners, made.owners.endpoints)
            self._owners = made.owners.endpoints


class Unfinished:
    """What the tables and maps of several feeds take before their ends. The feed that began first makes room."""

    def __init__(self) -> None:
        self._feeds: WeakKeyDictionary[Feed, int] = WeakKeyDictionary()  # octets, in the order of their beginnings

    def count(self, feed: "Feed", octets: int) -> bool:
        """Count what a feed takes now. Return False if that alone is too much."""
        if not octets:
            self._feeds.pop(feed, None)
            return True
        self._feeds[feed] = octets
        while sum(self._feeds.values()) > LONGEST_TABLE:
            first = next(one for one in self._feeds if one is not feed or octets > LONGEST_TABLE)
            del self._feeds[first]
            if first is feed:
                return False
            first.drop()
        return True


@dataclass(eq=False)
class Feed:
    """One source of records. The core's thread calls ``done`` after each text.

    ``stamp`` identifies the seed that it is. ``wanted`` marks a snapshot of this table and seed. What it takes
    before the end of a table is bounded with ``unfinished``.
    """

    values: Values
    origin: str
    compatible: bool
    done: Callable[[list[Outcome]], None]
    stamp: tuple[int, ...] = ()
    wanted: Kept | None = None
    unfinished: Unfinished | None = None

    def __post_init__(self) -> None:
        self._parser = Parser(self.compatible)
        self._size = 0  # octets of the unfinished table's text
        self._dropped = False

    @property
    def turn(self) -> str:
        """Whose texts wait for each other: each pusher's by themselves, so that a long push holds up nobody else."""
        return "" if self.unfinished is None else self.origin

    def drop(self) -> None:
        """Forget a table that has begun, for others."""
        self._parser, self._size, self._dropped = Parser(self.compatible), 0, True

    def take(self, text: Text, last: bool) -> Made:
        """Parse a text and build the result.

        ``last`` means that nothing follows. A path is a complete file.
        """
        made = Made(self, [])
        try:
            for result in self._results(text, last, made):
                made.outcomes.append(outcome := self._taken(result))
                if outcome.ok and not isinstance(result, BadTableError):
                    made.values.append(result)
        except OSError as error:
            made.outcomes.append(Outcome("table", "", f"the file cannot be read: {error.strerror}"))
        except SnapshotError as error:
            made.outcomes.append(Outcome("stash", "", str(error)))
        if last and not made.outcomes:
            reason = "the text contains no table and no map; a table begins with newrt|start"
            if self._parser.outside:
                reason = f"{reason}; {self._parser.outside[0]}"
            made.outcomes.append(Outcome("table", "", reason))
        self.values.build(made)
        return made

    def _results(self, text: Text, last: bool, made: Made) -> Iterator[Result]:
        """Yield what a text contains. Raises OSError and SnapshotError."""
        if isinstance(text, Table | MeidMap):
            yield text
            return
        if isinstance(text, Path):
            text = self._file(text, made)
        if self._dropped:
            self._dropped = False
            yield BadTableError("", DROPPED, [])
        for at in range(0, len(text), PIECE):
            piece = text[at : at + PIECE]
            yield from self._parser.feed(piece)
            yield from self._counted(len(piece))
        if last:
            yield from self._parser.finish()
            self._parser = Parser(self.compatible)
            yield from self._counted(0)

    def _counted(self, more: int) -> Iterator[BadTableError]:
        """Count so much more text. Yield what became of a table that takes too much."""
        self._size = 0 if self._parser.idle else self._size + more
        if self.unfinished is None or self.unfinished.count(self, self._size + self._parser.kept):
            return
        self._parser, self._size = Parser(self.compatible), 0
        yield BadTableError("", f"the table takes more than {LONGEST_TABLE} octets", [])

    def _file(self, path: Path, made: Made) -> str:
        if self.wanted is not None:
            made.kept, text = read(path)
            if made.kept.table != self.wanted.table or made.kept.stamp not in ((), self.wanted.stamp):
                raise SnapshotError("the file belongs to another table, or to a seed that has changed")
            return text
        if path.stat().st_size > FILE_LIMIT:
            raise OSError(EFBIG, f"the file is longer than {FILE_LIMIT} octets")
        return lossless(path.read_bytes())

    def _taken(self, result: Result) -> Outcome:
        values = self.values
        if isinstance(result, BadTableError):
            return Outcome("table", result.table_id, result.reason)
        if isinstance(result, MeidMap):
            kept = {one: owner for one, owner in values.owners.items() if one not in result.deleted} | result.owners
            if reason := _grown("managed entities", len(values.owners), len(kept), KEPT):
                return Outcome("map", result.table_id, reason)
            values.owners = kept
            return Outcome("map", result.table_id, entries=len(values.owners))
        return self._tabled(result)

    def _tabled(self, result: Table) -> Outcome:
        """Replace the table, or append an update to it."""
        values = self.values
        if result.complete:
            values.table = result
            return Outcome("table", result.table_id, entries=len(result))
        if values.table is None:
            return Outcome("update", result.table_id, TOO_EARLY)
        now = updated(values.table, result)
        if reason := _grown("entries", len(values.table), len(now), ENTRY):
            return Outcome("update", result.table_id, reason)
        values.table = now
        return Outcome("update", result.table_id, entries=len(result))


def _grown(what: str, before: int, now: int, octets: int) -> str:
    """Return why a table or map may not grow to so many of these octets each; empty: it may."""
    if now <= max(before, LONGEST_TABLE // octets):
        return ""
    return f"there would be {now} {what}, and {LONGEST_TABLE // octets} are possible; delete some first"


class Intake:
    """Does the work in a thread, and calls ``wake`` when a result is ready. Without ``wake`` it works at once."""

    def __init__(self, wake: Callable[[], None] | None = None) -> None:
        self.made: deque[Made] = deque()
        self._keeper = Keeper()
        self._wake = wake
        self._given = self._taken = 0  # octets that one thread has given, and another one has taken
        if wake is not None:
            self._jobs = Turns()
            self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread if there is work and none yet: the system may have had none when the work came."""
        if self._wake is not None and self._thread is None and len(self._jobs):
            self._thread = start_thread("tables", self._run, again=AGAIN_SECONDS)

    @property
    def queued(self) -> int:
        """The octets of memory of the texts that have not been read yet."""
        return self._given - self._taken

    def put(self, feed: Feed, text: Text, last: bool) -> None:
        """Take a text. Its result appears in ``made`` later."""
        if self._wake is None:
            self.made.append(feed.take(text, last))
        else:
            self._given += _length(text)
            self._do(partial(self._take, feed, text, last), feed.turn)

    def forget(self, things: list[object]) -> None:
        """Release large objects, of which nothing else holds a reference, in the thread."""
        if self._wake is not None:
            self._do(things.clear)

    def keep(self, path: str, use: Use | None) -> None:
        """Write a snapshot of what is in use, or without a use remove it."""
        if self._wake is None:
            self._keeper.put(path, use)
            self._keeper.flush()
        else:
            self._do(partial(self._keeper.put, path, use))

    def close(self) -> None:
        """Finish all work; nothing follows."""
        if self._wake is not None and self._thread is not None:
            self._jobs.end()
            self._thread.join(CLOSE_SECONDS)

    def _do(self, job: Callable[[], None], turn: str = "") -> None:
        self._jobs.put(turn, job)
        self.begin()

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(block=not self._keeper.busy)
            except Empty:
                self._keeper.step()  # while no other work waits
                continue
            if job is None:
                try:
                    self._keeper.flush()
                except Exception as error:  # nothing restarts this late
                    failures.tell("keeping route tables at the end", error, "the former files stay")
                return
            job()
            del job  # freed in this thread and not in the core's

    def _take(self, feed: Feed, text: Text, last: bool) -> None:
        assert self._wake is not None
        with still():  # a collection would visit every entry
            try:
                made = feed.take(text, last)
            except Exception as error:
                failures.tell(f"building a route table from {feed.origin}", error, "the table in use stays")
                made = Made(feed, [Outcome("table", "", f"{type(error).__name__}: {error}")])
            finally:
                self._taken += _length(text)
                gc.freeze()
        self.made.append(made)
        self._wake()


def _length(text: Text) -> int:
    """Return the octets of a text that somebody has sent; 0 for a file, or what was read before."""
    return sys.getsizeof(text) + WEIGHT if isinstance(text, str) else 0
