"""Patterns of addresses, and a map that finds the most specific one."""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

WILD: Final = ("*", "#")
MOST_STEPS: Final = 4_000  # of one search: about 2 ms
SEARCH_TOO_LONG: Final = (
    f"Finding the pattern of this address takes more than {MOST_STEPS} steps; use fewer tokens in it, or fewer "
    "patterns with `#`"
)

T = TypeVar("T")


class SearchTooLongError(Exception):
    """An address needs more steps than one search may take."""

    def __init__(self) -> None:
        super().__init__(SEARCH_TOO_LONG)


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
        self.steps = 0  # of the last search

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
        """Return the value of the most specific pattern that matches an address, or None.

        A `#` that was reached once takes all tokens from there on, so reaching it again at a later token finds
        nothing new. Each token therefore meets each place of the tree at most once, whatever the patterns are.
        ``steps`` is the number of such meetings. Raises SearchTooLongError after MOST_STEPS of them.
        """
        end = len(tokens)
        pending: list[tuple[_Node[T], int, bool]] = [(self._root, 0, False)]  # the next one last
        reached: set[_Node[T]] = set()  # each `#` that takes tokens, at the first place where it can
        self.steps = 0
        while pending:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise SearchTooLongError
            node, at, takes = pending.pop()
            if takes:  # a `#`, which takes all tokens from where it was reached
                if not node.children:
                    return node.value
                if at < end:
                    pending.append((node, at + 1, True))
            rest = node.children.get("#")
            if rest is not None and rest not in reached:
                reached.add(rest)
                pending.append((rest, at, True))
            if at == end:
                if node.value is not None:
                    return node.value
                continue
            if (child := node.children.get("*")) is not None:
                pending.append((child, at + 1, False))
            if tokens[at] not in WILD and (child := node.children.get(tokens[at])) is not None:
                pending.append((child, at + 1, False))
        return None
