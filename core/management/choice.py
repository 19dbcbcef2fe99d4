"""The choice of rows that a QUERY may make: by value, by text, in an order.

AMQP management knows pages (`offset`, `count`) and nothing else, so a client that looks for one address among 10,000
fetches them all. The choice is our own addition: members of the body beside ``attributeNames``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import merge
from typing import Any, Final

import msgspec

from core.management.request import BAD_REQUEST, ManagementError

MOST_ROWS: Final = 100_000  # among which a QUERY chooses; a million entries of a route table would take seconds
_SORTED: Final = 500  # rows that are sorted at once
MOST_BEGINNINGS: Final = 32  # each row is compared with all of them

Reads = Mapping[str, Callable[[Any], Any]]  # how a row's attributes are read


class Choice(msgspec.Struct, frozen=True):
    """The rows that are wanted, and their order.

    ``where``, ``at_least`` and ``without`` are by attribute: its value, its least value, and beginnings that its text
    does not have. ``search`` is part of the text of one of the requested attributes, in any case; ``order_by`` is an
    attribute, "" for the order of the table.
    """

    where: dict[str, Any] = {}
    at_least: dict[str, int] = {}
    without: dict[str, tuple[str, ...]] = {}
    search: str = ""
    order_by: str = ""
    descending: bool = False

    @property
    def attributes(self) -> set[str]:
        """The attributes of every row that the choice depends on, without those that are only searched."""
        return {*self.where, *self.at_least, *self.without, *([self.order_by] if self.order_by else [])}

    def chosen(
        self,
        entities: Sequence[Any],
        rows: Callable[[Sequence[Any]], Iterable[Any]],
        reads: Reads,
        names: Iterable[str],
    ) -> list[Any]:
        """Return the wanted entities in order; ``rows`` makes what their attributes are read from."""
        sought = [reads[name] for name in names if name in reads] if self.search else []
        found = []
        for entity, values in zip(entities, rows(entities), strict=True):
            if self._takes(values, reads) and (not self.search or self._found(values, sought)):
                found.append((reads[self.order_by](values) if self.order_by else None, entity))
        if self.order_by:
            known = [pair for pair in found if pair[0] is not None]
            found = _sorted(known, self.descending) + [pair for pair in found if pair[0] is None]
        return [entity for _, entity in found]

    def _takes(self, values: Any, reads: Reads) -> bool:
        return (
            all(reads[name](values) == value for name, value in self.where.items())
            and all(_reaches(reads[name](values), least) for name, least in self.at_least.items())
            and not any(str(reads[name](values) or "").startswith(some) for name, some in self.without.items())
        )

    def _found(self, values: Any, sought: list[Callable[[Any], Any]]) -> bool:
        texts = (value for read in sought if isinstance(value := read(values), str))
        return any(self.search in text.lower() for text in texts)


def choice_of(body: Mapping[str, Any]) -> Choice | None:
    """Return the choice that the body of a QUERY makes; None if it makes none. Raises ManagementError."""
    if not body.keys() & {"where", "atLeast", "without", "search", "orderBy"}:
        return None
    where, at_least, without = (_map(body, name) for name in ("where", "atLeast", "without"))
    if not all(isinstance(least, int) for least in at_least.values()):
        raise ManagementError(BAD_REQUEST, "atLeast: give a map from attribute names to whole numbers")
    if not all(isinstance(some, list) and all(isinstance(one, str) for one in some) for some in without.values()):
        raise ManagementError(BAD_REQUEST, "without: give a map from attribute names to lists of strings")
    if sum(map(len, without.values())) > MOST_BEGINNINGS:
        raise ManagementError(BAD_REQUEST, f"without: give {MOST_BEGINNINGS} beginnings at most")
    search, order_by = (_text(body, name) for name in ("search", "orderBy"))
    beginnings = {name: tuple(some) for name, some in without.items()}
    return Choice(where, at_least, beginnings, search.lower(), order_by, body.get("descending") is True)


def _map(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name) or {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ManagementError(BAD_REQUEST, f"{name}: give a map from attribute names to values")
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name) or ""
    if not isinstance(value, str):
        raise ManagementError(BAD_REQUEST, f"{name}: give a string")
    return value


def _reaches(value: Any, least: int) -> bool:
    return isinstance(value, int | float) and value >= least


def _sorted(pairs: list[tuple[Any, Any]], descending: bool) -> list[tuple[Any, Any]]:
    """Sort pairs by the rank of the first of each, as `sorted` does, which would not let the core's thread go first."""
    order: dict[str, Any] = {"key": lambda pair: _rank(pair[0]), "reverse": descending}
    portions = (sorted(pairs[start : start + _SORTED], **order) for start in range(0, len(pairs), _SORTED))
    return list(merge(*portions, **order))


def _rank(value: Any) -> tuple[bool, Any]:
    """Sort numbers, also those written as text, before words."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, int | float):
        return False, value
    return True, str(value).lower()
