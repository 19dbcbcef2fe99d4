"""A stream with something to install into, for tests."""

from collections.abc import Callable

from core.rmr.managers.messages import TABLE, Heard, Said
from core.rmr.managers.stream import Held, Stream
from core.rmr.tables.decoding import LOSSLESS
from core.rmr.tables.table import MeidMap, Table
from tests.support.values.table_use import Use


class Bed:
    """A stream, and what is in use. ``later``: installations that are not done yet."""

    def __init__(self, compatible: bool = False, based: bool = True, held: Held | None = None) -> None:
        self.use = Use()
        self.based = based
        self.said: list[Said] = []
        self.told: list[tuple[str, str]] = []
        self.later: list[Callable[[], None]] | None = None
        self.refuses = ""
        self.freed = 0  # times that most of many octets have gone
        self.held = held or Held(self.free)
        self.stream = Stream(
            self.install, lambda: self.based, lambda _, said: self.said.append(said), self.hear, compatible, self.held
        )

    def free(self) -> None:
        self.freed += 1

    def hear(self, _: Heard, table_id: str, reason: str) -> None:
        self.told.append((table_id, reason))

    def install(self, value: Table | MeidMap, done: Callable[[str], None]) -> None:
        def finish() -> None:
            if not self.refuses:
                self.use = self.use.apply(value)
            done(self.refuses)

        if self.later is None:
            finish()
        else:
            self.later.append(finish)

    def send(self, *payloads: str | bytes, xact: bytes = b"x", call: int = 0) -> list[str]:
        """Messages of one sender; what it hears of them."""
        before = len(self.said)
        for payload in payloads:
            octets = payload if isinstance(payload, bytes) else payload.encode()
            self.stream.message(Heard(TABLE, "rm:1", octets, "conn", xact=xact, call=call))
            while self.stream.busy:
                self.stream.step()
        return [said.payload.decode(errors=LOSSLESS) for said in self.said[before:]]

    @property
    def entries(self) -> list[str]:
        return [] if self.use.table is None else [str(row) for row in self.use.table.rows()]
