"""A message through the workers of one or several routers, step by step."""

from collections import deque
from collections.abc import Iterator

from msgspec import Struct, structs

from routerd.source_routes.access import Source
from routerd.source_routes.address import Address
from tests.model.source_routes.access import check, check_outgoing, of_worker
from tests.model.source_routes.message import Message, check_limits
from tests.model.source_routes.place import Place
from tests.model.source_routes.refusal import RefusedError
from tests.model.source_routes.rules import DEFAULT_RULES, step
from tests.model.source_routes.workers import Worker

MOST_STEPS = 1000


class Step(Struct, frozen=True):
    """The message after a step, or why it was refused; `copy` counts the copies from 1."""

    message: Message
    copy: int = 0
    refused: RefusedError | None = None
    is_end: bool = False

    @property
    def arrived(self) -> Message | None:
        """The message as it is delivered."""
        return self.message if self.is_end and self.refused is None else None


class _Visit(Struct, frozen=True):
    message: Message
    source: Source
    sender: Address | None
    place: Place | None  # the sender's; None: a client of the router that has the first address
    copy: int


def explain(message: Message, source: Source, places: tuple[Place, ...]) -> Iterator[Step]:
    """Yield the steps of a message from `source` and of its copies, each to its end; at most MOST_STEPS."""
    waiting = deque([_Visit(message, source, None, None, 0)])
    yield Step(message)
    copies = 0
    for _ in range(MOST_STEPS):
        if not waiting:
            return
        visit = waiting.popleft()
        found, results = _visit(visit, places)
        yield found
        for number, result in enumerate(results):
            copies += bool(number)
            waiting.append(structs.replace(result, copy=copies if number else visit.copy))


def _visit(visit: _Visit, places: tuple[Place, ...]) -> tuple[Step, list[_Visit]]:
    message = visit.message
    try:
        place, worker = _find(message.first, visit.place, places)
        rules = place.rules if place is not None else DEFAULT_RULES
        check_limits(message, rules.limits, str(message.first))
        source = visit.source
        if visit.place is not None and place is not None and place is not visit.place:
            source = frozenset({f"uplink:{visit.place.name}"})
        if place is not None and worker is not None:
            check(place.access, source, visit.sender, message.first)
            return _worked(visit, place, worker, source)
        if visit.place is not None:
            check_outgoing(visit.place.access, visit.sender, message.first)
    except RefusedError as refused:
        return Step(message, visit.copy, refused, is_end=True), []
    return Step(message, visit.copy, is_end=True), []


def _worked(visit: _Visit, place: Place, worker: Worker, source: Source) -> tuple[Step, list[_Visit]]:
    results = step(worker, visit.message, source, place.rules)
    visits = [_Visit(one, of_worker(worker.address), worker.address, place, 0) for one in results]
    return Step(results[0], visit.copy), visits


def _find(address: Address, near: Place | None, places: tuple[Place, ...]) -> tuple[Place | None, Worker | None]:
    """Return the route worker at an address, and its router: first that where the message is."""
    for place in ((near,) if near is not None else ()) + places:
        if address in place.workers:
            return place, place.workers[address]
    return None, None
