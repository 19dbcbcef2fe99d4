"""Follows a message through route workers step by step without sending anything: `routerd route explain`."""

from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct, structs

from routerd.source_routes.access import Access, Source, of_worker
from routerd.source_routes.address import Address, Route
from routerd.source_routes.message import Message, check_limits
from routerd.source_routes.refusal import RefusedError
from routerd.source_routes.rules import DEFAULT_RULES, Rules, step
from routerd.source_routes.words import described
from routerd.source_routes.workers import Worker

MOST_STEPS = 1000


class Place(Struct, frozen=True):
    """A router: its name, its route workers by each of their addresses, and its access lists."""

    name: str
    workers: Mapping[Address, Worker]
    access: Access = Access()
    rules: Rules = DEFAULT_RULES


class Step(Struct, frozen=True):
    """What happens `at` an address, and the routes afterwards. `copy` numbers copies from 1."""

    at: str
    router: str
    what: str
    onward: Route
    returning: Route
    state: str
    copy: int = 0
    refused: RefusedError | None = None
    arrived: Message | None = None


class _Visit(Struct, frozen=True):
    message: Message
    source: Source
    sender: Address | None
    place: Place | None  # the sender's; None: a client of the router that has the first address
    copy: int


def explain(message: Message, source: Source, places: tuple[Place, ...]) -> Iterator[Step]:
    """Yield the steps of a message from `source` and of its copies, each to its end; at most MOST_STEPS."""
    waiting = deque([_Visit(message, source, None, None, 0)])
    yield Step("", "", "sent", message.onward, message.returning, message.state.value)
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
    yield Step("", "", f"and more: {MOST_STEPS} steps are shown", (), (), "")


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
            place.access.check(source, visit.sender, message.first)
            return _worked(visit, place, worker, source)
        if visit.place is not None:
            visit.place.access.check_outgoing(visit.sender, message.first)
    except RefusedError as refused:
        what = f"refused, {refused.condition}: {refused.detail}"
        return _row(visit, refused.address, "", what, message, refused=refused), []
    rest = " with the rest of its route; no worker here has this address" * (len(message.onward) > 1)
    return _row(visit, str(message.first), "", f"delivered{rest}", message, arrived=message), []


def _worked(visit: _Visit, place: Place, worker: Worker, source: Source) -> tuple[Step, list[_Visit]]:
    at = visit.message.first
    results = step(worker, visit.message, source, place.rules)
    what = described(worker, at, visit.message, results[0], place.rules.limits)
    visits = [_Visit(one, of_worker(worker.address), worker.address, place, 0) for one in results]
    return _row(visit, str(at), place.name, what, results[0]), visits


def _find(
    address: Address, near: Place | None, places: tuple[Place, ...]
) -> tuple[Place | None, Worker | None]:
    """Return the route worker at an address, and its router: first that where the message is."""
    for place in ((near,) if near is not None else ()) + places:
        if address in place.workers:
            return place, place.workers[address]
    return None, None


def _row(
    visit: _Visit,
    at: str,
    router: str,
    what: str,
    message: Message,
    refused: RefusedError | None = None,
    arrived: Message | None = None,
) -> Step:
    state = message.state.value
    return Step(at, router, what, message.onward, message.returning, state, visit.copy, refused, arrived)
