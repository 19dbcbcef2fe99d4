"""Patterns of addresses, and a map that finds the most specific one."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

WILD: Final = ("*", "#")

T = TypeVar("T")


def covers(pattern: Sequence[str], other: Sequence[str]) -> bool:
    """Whether every address of the other pattern is also one of this pattern.

    The tokens of ``other`` move through the places of ``pattern``. Only `#` takes the other's `#`. An address
    set that several tokens would cover only together counts as not covered.
    """
    places = _skipped({0}, pattern)
    for token in other:
        stays = {at for at in places if pattern[at : at + 1] == ["#"]}
        moves = {at + 1 for at in places if at < len(pattern) and _takes(pattern[at], token)}
        places = _skipped(stays | moves, pattern)
    return len(pattern) in places


def _takes(one: str, other: str) -> bool:
    return other != "#" and one in ("*", other)


def _skipped(places: set[int], pattern: Sequence[str]) -> set[int]:
    """Add the places behind each `#`, which may stand for no token."""
    for at in sorted(places):
        behind = at
        while behind < len(pattern) and pattern[behind] == "#":
            behind += 1
            places.add(behind)
    return places


class _Node(Generic[T]):
    """A place in the tree of tokens."""

    __slots__ = ("children", "value")

    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        self.value: T | None = None


class Patterns(Generic[T]):
    """A map from patterns to values: ``*`` is exactly one token, ``#`` any number.

    The most specific pattern wins, token by token: a literal before ``*`` before ``#``.
    """

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def insert(self, tokens: Sequence[str], value: T) -> None:
        """Set the value of a pattern."""
        node = self._root
        for token in tokens:
            node = node.children.setdefault(token, _Node())
        node.value = value

    def remove(self, tokens: Sequence[str]) -> None:
        """Remove a pattern; no-op if absent."""
        path, node = [], self._root
        for token in tokens:
            if token not in node.children:
                return
            path.append((node, token))
            node = node.children[token]
        node.value = None
        for parent, token in reversed(path):
            if parent.children[token].children or parent.children[token].value is not None:
                return
            del parent.children[token]

    def find(self, tokens: Sequence[str]) -> T | None:
        """Return the value of the most specific pattern that matches an address, or None."""
        return _search(self._root, tokens, 0, set())


def _search(node: _Node[T], tokens: Sequence[str], at: int, tried: set[tuple[int, int]]) -> T | None:
    """Search below a node.

    ``tried`` keeps several ``#`` from multiplying the work; the configuration bounds the depth.
    """
    if (id(node), at) in tried:
        return None
    tried.add((id(node), at))
    if at == len(tokens):
        if node.value is not None:
            return node.value
    else:
        literal = node.children.get(tokens[at]) if tokens[at] not in WILD else None
        for child in (literal, node.children.get("*")):
            if child is not None and (found := _search(child, tokens, at + 1, tried)) is not None:
                return found
    rest = node.children.get("#")
    if rest is None:
        return None
    for after in range(at, len(tokens) + 1):
        if (found := _search(rest, tokens, after, tried)) is not None:
            return found
    return None
