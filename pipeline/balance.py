"""Which endpoint should own which entity, so that few moves even out the load; equal input gives equal results.

Entities are numbers here: those of one owner with equal loads are alike. So the work needs memory for the endpoints and
the different loads, however many entities there are.
"""

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, floor

Alike = tuple[str, int]  # the owner of entities, and the load of each
Moves = dict[Alike, list[tuple[str, int]]]  # new owners, and how many each gets


def balance(entities: Mapping[Alike, int], endpoints: Iterable[str], slack: float) -> Moves:
    """Return how many entities go to which other endpoint; none should have more than ``1 + slack`` of the mean.

    Entities move whose owner is not among the endpoints, and some of the endpoints with too much load: first the
    smallest one that takes away the whole excess, or else the largest that fits somewhere. Where nothing fits, the
    load stays as it is. Raises ``ValueError`` without an endpoint.
    """
    places = sorted(set(endpoints))
    if not places:
        raise ValueError("there is no endpoint to own managed entities")
    limit = sum(load * number for (_, load), number in entities.items()) / len(places) * (1 + slack)
    owned: dict[str, dict[int, int]] = {place: {} for place in places}
    for (owner, load), number in entities.items():
        if owner in owned:
            owned[owner][load] = number
    totals = {place: sum(load * number for load, number in loads.items()) for place, loads in owned.items()}
    moved: dict[Alike, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    room = [(total, place) for place, total in totals.items()]
    heapq.heapify(room)

    def put(alike: Alike) -> None:
        """Give an entity to the endpoint with the least load; outdated entries of the heap are skipped."""
        while totals[room[0][1]] != room[0][0]:
            heapq.heappop(room)
        _, place = heapq.heappop(room)
        totals[place] += alike[1]
        moved[alike][place] += 1
        heapq.heappush(room, (totals[place], place))

    for owner, load in sorted((one for one in entities if one[0] not in owned), key=lambda one: (-one[1], one[0])):
        for _ in range(entities[owner, load]):
            put((owner, load))
    for place in sorted(places, key=lambda one: (-totals[one], one)):
        if totals[place] > limit:
            for load in _shed(owned[place], totals, place, limit):
                totals[place] -= load
                heapq.heappush(room, (totals[place], place))
                put((place, load))
    return {alike: sorted(targets.items()) for alike, targets in moved.items()}


def _shed(owned: dict[int, int], totals: dict[str, int], place: str, limit: float) -> Iterator[int]:
    """Yield the loads of entities that should leave an endpoint; the caller moves each before it takes the next."""
    numbers = {load: number for load, number in owned.items() if load}
    loads = sorted(numbers)
    while loads and totals[place] > limit:
        least = min(total for other, total in totals.items() if other != place) if len(totals) > 1 else limit
        at = bisect_left(loads, ceil(totals[place] - limit))
        fitting = bisect_left(loads, floor(limit - least) + 1) - 1
        at = at if at <= fitting else fitting
        if at < 0:
            return
        load = loads[at]
        numbers[load] -= 1
        if not numbers[load]:
            loads.pop(at)
        yield load
