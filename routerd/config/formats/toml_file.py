"""The .toml format: `[router]` for a single entity, `[[listener]]` for one of several.

The standard reader tells no lines, so a second pass over the text finds headers and keys. It may miss a key
in a multi-line text or inline table; a mistake then has the line of the table around it.
"""

import re
import tomllib
from typing import Any, TypeAlias

from routerd.config.formats.json_text import MAX_DEPTH
from routerd.config.formats.source import (
    Array,
    Block,
    ConfigSyntaxError,
    Mistake,
    Section,
    Setting,
    Value,
    shown,
    shown_of,
)

_Path: TypeAlias = tuple[str | int, ...]

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*\]\]?\s*(?:#.*)?")
_ASSIGNMENT = re.compile(rf"\s*({_KEY}(?:\s*\.\s*{_KEY})*)\s*=")
_MOST_BITS = 512  # of a number: hexadecimal ones may have more digits than Python shows
_TOO_DEEP = f"arrays or tables are nested more than {MAX_DEPTH} deep; put fewer into each other"
_WHERE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def parse(text: str, file: str, mistakes: list[Mistake]) -> list[Section]:
    """Return the sections of a .toml text; append what cannot be read to `mistakes`."""
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        mistakes.append(_syntax_mistake(file, text, str(error)))
        return []
    except RecursionError:
        mistakes.append(Mistake(file, 1, _TOO_DEEP))
        return []
    try:
        return _sections(document, _Lines(text), file, mistakes)
    except ConfigSyntaxError as error:
        mistakes.append(Mistake(file, error.line, error.text))
        return []


def _sections(document: dict[str, Any], lines: "_Lines", file: str, mistakes: list[Mistake]) -> list[Section]:
    sections: list[Section] = []
    for name, value in document.items():
        for path, table in _tables(name, value):
            line = lines.of(path, 1)
            if isinstance(table, dict):
                sections.append(Section(name, _block(table, path, line, lines), line, file))
            else:
                mistakes.append(Mistake(file, line, _stray(name, _value(table, path, line, lines))))
    return sorted(sections, key=lambda section: section.line)


def _tables(name: str, value: Any) -> list[tuple[_Path, Any]]:
    if isinstance(value, list):
        return [((name, index), table) for index, table in enumerate(value)]
    return [((name, 0), value)]


def _stray(name: str, value: object) -> str:
    return f"{shown(name)} is {shown_of(name, value)} outside a table; put it below a header such as [router]"


def _block(table: dict[str, Any], path: _Path, line: int, lines: "_Lines") -> Block:
    settings = []
    for name, value in table.items():
        place = (*path, name)
        own = lines.of(place, line)
        settings.append(Setting(name, _value(value, place, own, lines), own))
    return Block(tuple(settings), line)


def _value(value: Any, path: _Path, line: int, lines: "_Lines") -> Value:
    if len(path) > MAX_DEPTH:
        raise ConfigSyntaxError(line, _TOO_DEEP)
    if isinstance(value, dict):
        return _block(value, path, line, lines)
    if isinstance(value, list):
        values = tuple(_value(element, (*path, i), line, lines) for i, element in enumerate(value))
        return Array(values, tuple(line for _ in values))
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ConfigSyntaxError(line, "the number is too long; give one that fits 64 bits")
    return value if isinstance(value, str | int | float | bool) else str(value)


class _Lines:
    """The line of each header and key by path; an entity's path is its name and its number among those."""

    def __init__(self, text: str) -> None:
        self._lines: dict[_Path, int] = {}
        self._arrays: dict[tuple[str, ...], int] = {}
        table: _Path = ()
        for number, line in enumerate(text.split("\n"), start=1):
            if header := _HEADER.fullmatch(line.rstrip("\r")):
                table = self._enter(_keys(header[2]), array=header[1] == "[[")
                self._lines.setdefault(table, number)
            elif assignment := _ASSIGNMENT.match(line):
                keys = _keys(assignment[1])
                for length in range(1, len(keys) + 1):
                    head: _Path = table or (keys[0], 0)
                    path = (*head, *keys[0 if table else 1 : length])
                    self._lines.setdefault(path, number)

    def of(self, path: _Path, default: int) -> int:
        return self._lines.get(path, default)

    def _enter(self, keys: tuple[str, ...], array: bool) -> _Path:
        """Return the path of a header; only its first key, the entity, is numbered."""
        if array and len(keys) == 1:
            self._arrays[keys] = self._arrays.get(keys, -1) + 1
        return (keys[0], self._arrays.get(keys[:1], 0), *keys[1:])


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, dotted))


def _syntax_mistake(file: str, text: str, reason: str) -> Mistake:
    where = _WHERE.search(reason)
    line = int(where[1]) if where and where[1] else text.count("\n") + 1 if where else 1
    what = reason[: where.start()] if where else reason
    return Mistake(file, line, f'this is not TOML ({what}); write it as key = "text", number, true or false')
