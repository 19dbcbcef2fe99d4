"""The steps of a message through route workers, as worker processes would take them; nothing is sent."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from routerd.source_routes.access import Source, is_foreign, not_from, not_to
from routerd.source_routes.address import Address, Route
from routerd.source_routes.words import described
from shm.contract.source_routes import SourceRoutesSetup, Stop
from workers.source_routes.steps import StepRefusedError, Steps
from workers.source_routes.table import Scopes, Sources, compiled

MOST_STEPS = 1000


class Step(Struct, frozen=True):
    """What happens `at` an address, and the routes afterwards. `copy` numbers copies from 1."""

    at: str
    router: str
    what: str
    onward: Route = ()
    returning: Route = ()
    state: str = ""
    copy: int = 0
    refused: str = ""  # the reason, as counters call it
    arrived: bool = False


class Router:
    """One of the routers on the way; `workers` are by each of their addresses."""

    def __init__(self, name: str, setup: SourceRoutesSetup) -> None:
        self.name = name
        self.workers = {
            address_of(stop): one for one in setup.workers for stop in (one.address, one.inner) if stop is not None
        }
        self.sources = Sources(setup.workers)
        self.steps = Steps(compiled(setup, self.sources), Scopes(setup.workers))
        self.numbers = {one.address.text: number for number, one in enumerate(setup.workers)}

    def denied(self, source: Source, sender: Address | None, address: Address) -> str:
        """Say which rule keeps `source`, the route worker at `sender` if it is one, from the address."""
        sending = None if sender is None else self.workers.get(sender)
        if sending is not None and sending.send_to is not None and address not in map(address_of, sending.send_to):
            return not_to(sender, [one.text for one in sending.send_to])
        worker = self.workers.get(address)
        if worker is None:
            return not_from(source, None)
        return not_from(source, worker.allow if address == address_of(worker.address) else worker.inner_allow)


def address_of(stop: Stop) -> Address:
    return Address(stop.type, stop.name)


class _Message(Struct, frozen=True):
    """A message between two steps."""

    octets: bytes
    onward: Route
    returning: Route
    state: str
    source: Source
    sender: Address | None = None
    router: Router | None = None  # of the sender; None: a client of whichever router has the first address
    copy: int = 0

    @property
    def routes(self) -> tuple[Route, Route]:
        return self.onward, self.returning

    def step(self, at: str, router: str, what: str, refused: str = "", arrived: bool = False) -> Step:
        return Step(at, router, what, self.onward, self.returning, self.state, self.copy, refused, arrived)


def explain(onward: Route, returning: Route, source: Source, routers: Sequence[Router]) -> Iterator[Step]:
    """Yield the steps of a message that `source` sends and of its copies, each to its end; 1,000 at most."""
    routers = list(routers) or [Router("", SourceRoutesSetup())]
    state = "complete" if returning else "none"
    sent = _Message(b"", onward, returning, state, source)
    yield sent.step("", "", "sent")
    try:
        octets = [*_with(sent, routers), *routers][0].steps.sent(onward, returning)[0]
    except StepRefusedError as refused:
        yield _refused(sent, refused)
        return
    waiting = deque([structs.replace(sent, octets=octets)])
    copies = 0
    for _ in range(MOST_STEPS):
        if not waiting:
            return
        message = waiting.popleft()
        found, results = _step(message, routers)
        yield found
        for number, result in enumerate(results):
            copies += bool(number)
            waiting.append(structs.replace(result, copy=copies if number else message.copy))
    yield Step("", "", f"and more: {MOST_STEPS} steps are shown")


def _refused(message: _Message, refused: StepRefusedError, detail: str = "") -> Step:
    at = str(message.onward[0]) if message.onward else ""
    what = f"refused, {refused.condition}: {detail or refused.detail}"
    return message.step(at, "", what, refused=refused.reason)


def _step(message: _Message, routers: list[Router]) -> tuple[Step, list[_Message]]:
    """Take a message through the worker of its first address, rather one where the message is."""
    near = [] if message.router is None else [message.router]
    for router in [*near, *_with(message, routers)]:
        source = message.source
        if message.router is not None and message.router is not router:
            source = frozenset({f"uplink:{message.router.name}"})
        sender = router.numbers[str(message.sender)] if message.router is router else -1
        try:
            left = router.steps.step(message.octets, sender, router.sources.numbers(source), is_foreign(source))
        except StepRefusedError as refused:
            detail = ""
            if refused.reason == "access":
                detail = router.denied(source, message.sender, message.onward[0])
            return _refused(message, refused, detail), []
        if left is not None:
            return _worked(message, router, left)
    rest = " with the rest of its route; no route worker here has this address" * (len(message.onward) > 1)
    return message.step(str(message.onward[0]), "", f"delivered{rest}", arrived=True), []


def _with(message: _Message, routers: list[Router]) -> list[Router]:
    """Return the routers that have a worker of the first address."""
    return [one for one in routers if message.onward and message.onward[0] in one.workers]


def _worked(message: _Message, router: Router, left: list[Any]) -> tuple[Step, list[_Message]]:
    at = message.onward[0]
    worker = router.workers[at]
    source = frozenset({f"worker:{worker.address.text}"})
    found = [
        _Message(octets, _route(onward), _route(returning), state, source, address_of(worker.address), router)
        for octets, onward, returning, state, _ in left
    ]
    first = structs.replace(found[0], copy=message.copy)
    inside = left[0][-1]
    wrapped = None if inside is None else (_route(inside[0]), _route(inside[1]))
    what = described(worker, message.routes, first.routes, wrapped)
    return first.step(str(at), router.name, what), found


def _route(way: Iterable[tuple[int, bytes]]) -> Route:
    return tuple(Address(*one) for one in way)
