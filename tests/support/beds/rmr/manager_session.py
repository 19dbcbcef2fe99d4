"""A manager session with what is around it."""

from collections.abc import Callable

from core.amqp.codec import mapping, section, string, symbol
from core.rmr.managers.envelope import ANNOTATION, opened
from core.rmr.managers.manager_session import ManagerSession, Peer
from core.rmr.tables.decoding import octets_of, stray
from core.rmr.tables.table import MeidMap, Table
from shm.contract.tables import TableSetup
from tests.support.clients import rmr_frames as frames
from tests.support.values.table_use import Use

S = 1_000_000_000
GOOD = b"newrt|start|t1\nmse|1|-1|a:1\nnewrt|end|1\n"
UPDATE = b"updatert|start|u\nmse|2|-1|a:1\nupdatert|end|1\n"


def binary(octets: bytes) -> bytes:
    return b"\xb0" + len(octets).to_bytes(4, "big") + octets


def content(kind: int, payload: bytes, source: str = "rm:1", call: int = 0, xact: bytes = b"") -> bytes:
    """A frame as a worker puts it into a message."""
    flags = frames.CALL if call else 0
    frame = frames.Frame(kind, payload, source=source, transaction=xact, flags=flags, d1=bytes((call, 0, 0, 0)))
    annotations = mapping([(symbol(ANNOTATION), binary(frames.header(frame)))])
    named = binary(octets_of(source)) if stray(source) else string(source)
    properties = mapping([(string("rmr.source"), named)])
    return b"".join(
        (b"\x00\x53\x70\x45", section(0x72, annotations), section(0x74, properties), section(0x75, binary(payload)))
    )


class World:
    """A manager session with what is around it."""

    def __init__(self, use: Use | None = None, **settings: object) -> None:
        self.use = use or Use()
        self.from_ = ""
        self.sent: list[tuple[str, frames.Frame]] = []
        self.dialled: dict[str, bool] = {}
        self.counts: dict[str, int] = {}
        self.refusals: list[str] = []
        self.up: set[str] = set()
        self.now = 0
        self.session = ManagerSession(TableSetup("rt", "rt", source="me:4560", **settings), "i", self, self.use)  # type: ignore[arg-type]  # as a test gives them

    def send(self, address: str, message: bytes) -> bool:
        if address in self.up:
            heard = opened(message, "", "")
            (header, payload) = message.split(section(0x75, b"")[:3])[0], heard.payload
            assert header
            self.sent.append((address, frames.Frame(heard.kind, payload, source=heard.source, transaction=heard.xact)))
        return address in self.up

    def waiting(self, _: str) -> int:
        return 0

    def there(self, address: str) -> bool:
        return address in self.up

    def dial(self, name: str, wanted: bool) -> None:
        self.dialled[name] = wanted

    def install(self, value: Table | MeidMap, origin: str, done: Callable[[str], None]) -> None:
        self.use, self.from_ = self.use.apply(value), origin
        done("")
        self.session.installed(self.use, value)

    def origin(self) -> str:
        return self.from_

    def refused(self, what: str, reason: str) -> None:
        self.refusals.append(f"{what}: {reason}")

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def freed(self) -> None:
        """The heap of a test keeps what it likes."""

    def seconds(self) -> int:
        return 1700000000

    def connect(self, number: int, host: str, reached: str = "") -> None:
        self.session.opened(Peer(number, host, reached))
        self.up.add(f"$conn/{number}")
        self.run()

    def close(self, number: int) -> None:
        self.up.discard(f"$conn/{number}")
        self.session.closed(number, self.now)

    def run(self, seconds: float = 0) -> None:
        self.now += int(seconds * S) + 1
        for _ in range(10):
            self.session.step(self.now)

    def say(self, number: int, kind: int, payload: bytes, **more: object) -> list[tuple[str, frames.Frame]]:
        """A message on a connection; what is sent then."""
        self.sent.clear()
        self.session.heard(content(kind, payload, **more), number, self.now)  # type: ignore[arg-type]  # as above
        self.run()
        return list(self.sent)
