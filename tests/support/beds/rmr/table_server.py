"""A Route Manager's server and its applications, without a core."""

from core.rmr.managers import application as a
from core.rmr.managers.messages import REQUEST, STATE, TABLE, Heard, Said, request, state
from core.rmr.managers.server import Event, Server
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import MeidMap, Table
from tests.support.values.table_use import Use

S = 1_000_000_000
APP, CONTROL = "app:4560", "app:4561"


def value(text: str) -> Table | MeidMap:
    (found,) = Parser().feed(text)
    assert isinstance(found, Table | MeidMap)
    return found


def table(*lines: str, frame: str = "newrt") -> Table | MeidMap:
    return value("\n".join([f"{frame}|start|rt", *lines, f"{frame}|end|{len(lines)}\n"]))


def owners(*lines: str) -> Table | MeidMap:
    return value("\n".join(["meid_map|start|mm", *lines, f"meid_map|end|{len(lines)}\n"]))


class Bed:
    """A server, and what it has sent: (connection, message)."""

    def __init__(self, name: str = "") -> None:
        self.sent: list[tuple[str, Said]] = []
        self.reached: dict[str, bool] = {}
        self.events: list[tuple[str, str]] = []
        self.gone: set[str] = set()
        self.free = 1000
        self.now = 0
        self.use = Use()
        self.server = Server("me1", name, self, self.hear, piece=200)

    def hear(self, event: Event) -> None:
        self.events.append((event.kind, event.application.control))

    def room(self, _: str) -> int:
        return self.free

    def send(self, connection: str, said: Said) -> bool:
        if connection in self.gone:
            return False
        self.free -= 1
        self.sent.append((connection, said))
        return True

    def reach(self, control: str, wanted: bool) -> None:
        self.reached[control] = wanted

    def install(self, installed: Table | MeidMap) -> None:
        self.use = self.use.apply(installed)
        self.server.install(self.use, installed)
        self.later(0)

    def ask(self, connection: str = "c1", endpoint: str = APP, control: str = CONTROL) -> str:
        heard = Heard(REQUEST, control, request(endpoint, 1), connection, "10.0.0.1:40000")
        return self.server.requested(heard, control, self.now)

    def later(self, seconds: float) -> None:
        self.now += int(seconds * S)
        for _ in range(50):
            self.server.step(self.now)

    def take(self) -> list[str]:
        """Records that were sent since, without ids; they are kept for the answer."""
        self.taken, self.sent = self.sent, []
        assert all(said.kind == TABLE for _, said in self.taken)
        text = b"".join(said.payload for _, said in self.taken).decode()
        lines = text.splitlines()
        self.ids = [line.split("|")[2] for line in lines if "|start|" in line]
        return [line.rpartition("|")[0] if "|start|" in line else line for line in lines]

    def answer(self, reason: str = "", connection: str = "c1", table_id: str = "") -> None:
        """What the application says of what was taken last."""
        payload = state(table_id or self.ids[-1], reason, bad=bool(reason))
        xact = self.taken[-1][1].xact
        self.server.answered(Heard(STATE, CONTROL, payload, connection, xact=xact), self.now)

    @property
    def app(self) -> a.Application:
        (found,) = self.server
        return found

    def synchronised(self) -> "Bed":
        """With one entry and one owner, and an application that runs them."""
        self.install(table("mse|1|-1|a:1"))
        self.install(owners("mme_ar|a:1|x"))
        self.ask()
        self.take()
        self.answer()
        self.take()
        self.answer()
        assert self.app.state == a.OK
        return self
