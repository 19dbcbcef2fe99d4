"""Which endpoint should own which entity, so that few moves even out the load; equal input gives equal results."""

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from math import ceil, floor

Loads = Mapping[str, int]


def balance(loads: Loads, owners: Mapping[str, str], endpoints: Iterable[str], slack: float) -> dict[str, str]:
    """Return the owner of every entity of ``loads``; no endpoint should have more than ``1 + slack`` of the mean.

    Entities move whose owner is not among the endpoints, and some of the endpoints with too much load: first the
    smallest one that takes away the whole excess, or else the largest that fits somewhere. Where nothing fits, the
    load stays as it is. Raises ``ValueError`` without an endpoint.
    """
    places = sorted(set(endpoints))
    if not places:
        raise ValueError("there is no endpoint to own managed entities")
    limit = sum(loads.values()) / len(places) * (1 + slack)
    owned: dict[str, list[tuple[int, str]]] = {place: [] for place in places}
    free: list[tuple[int, str]] = []
    for name in sorted(loads):
        owner = owners.get(name, "")
        owned.get(owner, free).append((loads[name], name))
    totals = {place: sum(load for load, _ in entities) for place, entities in owned.items()}
    result = {name: place for place, entities in owned.items() for _, name in entities}
    room = [(total, place) for place, total in totals.items()]
    heapq.heapify(room)

    def put(load: int, name: str) -> None:
        """Give an entity to the endpoint with the least load; outdated entries of the heap are skipped."""
        while totals[room[0][1]] != room[0][0]:
            heapq.heappop(room)
        _, place = heapq.heappop(room)
        totals[place] += load
        result[name] = place
        heapq.heappush(room, (totals[place], place))

    for load, name in sorted(free, key=lambda one: (-one[0], one[1])):
        put(load, name)
    for place in sorted(places, key=lambda one: (-totals[one], one)):
        if totals[place] > limit:
            for load, name in _shed(sorted(owned[place]), totals, place, limit):
                totals[place] -= load
                heapq.heappush(room, (totals[place], place))
                put(load, name)
    return result


def _shed(
    entities: list[tuple[int, str]], totals: dict[str, int], place: str, limit: float
) -> Iterable[tuple[int, str]]:
    """Yield the entities that should leave an endpoint; the caller moves each before it takes the next."""
    while entities and totals[place] > limit:
        least = min(total for other, total in totals.items() if other != place) if len(totals) > 1 else limit
        at = bisect_left(entities, (ceil(totals[place] - limit), ""))
        fitting = bisect_left(entities, (floor(limit - least) + 1, "")) - 1
        at = at if at <= fitting else fitting
        if at < 0:
            return
        load, name = entities.pop(at)
        if load == 0:
            continue
        yield load, name
