"""Who should own what: loads made even with few moves. Pure, and the same for the same input."""

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from math import ceil, floor

Loads = Mapping[str, int]


def balance(loads: Loads, owners: Mapping[str, str], endpoints: Iterable[str], slack: float) -> dict[str, str]:
    """The owner of every entity of ``loads``, so that no endpoint has more than ``1 + slack`` of the mean.

    An entity whose owner is not among the endpoints moves; of the others only those of endpoints with too
    much. Of these first the entity moves that takes away the excess at once, the smallest of such,
    otherwise the largest that fits somewhere. Where nothing fits, the load stays as it is. Raises
    ValueError: there is no endpoint.
    """
    places = sorted(set(endpoints))
    if not places:
        raise ValueError("there is no endpoint to own anything")
    limit = sum(loads.values()) / len(places) * (1 + slack)
    owned: dict[str, list[tuple[int, str]]] = {place: [] for place in places}
    free: list[tuple[int, str]] = []
    for name in sorted(loads):
        owner = owners.get(name, "")
        owned.get(owner, free).append((loads[name], name))
    sums = {place: sum(load for load, _ in entities) for place, entities in owned.items()}
    result = {name: place for place, entities in owned.items() for _, name in entities}
    room = [(total, place) for place, total in sums.items()]
    heapq.heapify(room)

    def put(load: int, name: str) -> None:
        """To the endpoint with the least; outdated entries of the heap are passed over."""
        while sums[room[0][1]] != room[0][0]:
            heapq.heappop(room)
        _, place = heapq.heappop(room)
        sums[place] += load
        result[name] = place
        heapq.heappush(room, (sums[place], place))

    for load, name in sorted(free, key=lambda one: (-one[0], one[1])):
        put(load, name)
    for place in sorted(places, key=lambda one: (-sums[one], one)):
        if sums[place] > limit:
            for load, name in _shed(sorted(owned[place]), sums, place, limit):
                sums[place] -= load
                heapq.heappush(room, (sums[place], place))
                put(load, name)
    return result


def _shed(entities: list[tuple[int, str]], sums: dict[str, int], place: str, limit: float) -> Iterable[tuple[int, str]]:
    """Entities of an endpoint, in the order of load, that should leave it; asked for one at a time."""
    while entities and sums[place] > limit:
        least = min(total for other, total in sums.items() if other != place) if len(sums) > 1 else limit
        at = bisect_left(entities, (ceil(sums[place] - limit), ""))
        fitting = bisect_left(entities, (floor(limit - least) + 1, "")) - 1
        at = at if at <= fitting else fitting
        if at < 0:
            return
        load, name = entities.pop(at)
        if load == 0:
            continue
        yield load, name
