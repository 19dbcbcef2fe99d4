"""The qdrouterd.conf syntax: `section {`, `key: value`, `}`, comments with `#`.

A value that begins with `{` is a JSON block of one or more lines; it may hold plain `key: value` lines too.
Parsing continues after a mistake, so that it finds all of them.
"""

import re
from itertools import accumulate

from routerd.config.formats.json_text import JsonText, without_comment
from routerd.config.formats.source import (
    Block,
    ConfigSyntaxError,
    Mistake,
    Section,
    Setting,
    camel_case,
    shown,
    shown_of,
)

# '#' is a wildcard in these values; in all others it begins a comment.
HASH_ALLOWED = frozenset({"pattern", "bindingKey", "hostname", "prefix"})
# In a routeWorker '#' also ends the type of an address.
HASH_IN_ROUTES = frozenset({"address", "inner", "route", "returnRoute", "traceAs", "sendTo", "allow", "innerAllow"})

_NAME = re.compile(r"[\w.-]+", re.ASCII)
_BEGIN = re.compile(r"([\w.-]+)\s*\{\s*(?:#.*)?", re.ASCII)
_ON_ONE_LINE = re.compile(r"([\w.-]+)\s*\{\s*([^#].*)", re.ASCII)
_PAIR = re.compile(r"([\w.-]+)\s*:\s*([^\s,;{}]+)", re.ASCII)
_END = re.compile(r"\}\s*(?:#.*)?")
_SETTING = re.compile(r"([\w.-]+)\s*:\s*(.*)", re.ASCII)
_WITH_HASH = re.compile(r"(\S+(?:\s+[^\s#]\S*)*)\s*(?:#.*)?")


def parse(text: str, file: str, mistakes: list[Mistake]) -> list[Section]:
    """Return the sections of a .conf text; append what cannot be read to `mistakes`."""
    return _Reader(text, file, mistakes).sections()


class _Reader:
    def __init__(self, text: str, file: str, mistakes: list[Mistake]) -> None:
        self._text = text
        self._lines = text.split("\n")
        self._begins = list(accumulate((len(one) + 1 for one in self._lines), initial=0))  # where each line begins
        self._file = file
        self._mistakes = mistakes
        self._index = 0  # index of the next line
        self._with_hash = HASH_ALLOWED

    def sections(self) -> list[Section]:
        found: list[Section] = []
        while (line := self._next()) is not None:
            if not line or line.startswith("#"):
                continue
            if begin := _BEGIN.fullmatch(line):
                found.append(self._section(begin[1]))
            elif _NAME.fullmatch(line) and self._peek() == "{":
                self._mistake(f"'{{' stands on a line of its own; write '{line} {{' instead")
                self._index += 1
                found.append(self._section(line))
            elif inline := _ON_ONE_LINE.fullmatch(line):
                found.append(self._on_one_line(inline[1], inline[2]))
            elif (setting := _SETTING.fullmatch(line)) and setting[2] == "{":
                self._mistake(f"no colon stands between a section's name and its brace; write '{setting[1]} {{'")
                found.append(self._section(setting[1]))
            elif setting:
                self._mistake(f"{shown(setting[1])} is outside a section; put it between 'router {{' and '}}'")
                self._skip_block(setting[2])
            elif _END.fullmatch(line):
                self._mistake("'}' closes no section; remove it")
            else:
                self._mistake(f"{shown(line)} is not understood; begin a section with its name, such as 'router {{'")
        return found

    def _on_one_line(self, name: str, rest: str) -> Section:
        """Read a section with attributes behind its brace as if they stood on lines of their own."""
        self._mistake(f"'{name} {{' stands before an attribute; put each on a line of its own")
        start = self._index
        settings = [Setting(pair[1], pair[2], start) for pair in _PAIR.finditer(rest)]
        if not rest.endswith("}"):
            return self._section(name, settings)
        return Section(name, Block(tuple(settings), start), start, self._file)

    def _section(self, name: str, settings: list[Setting] | None = None) -> Section:
        start = self._index
        routes = camel_case(name).rpartition(".")[2] == "routeWorker"
        self._with_hash = HASH_ALLOWED | HASH_IN_ROUTES if routes else HASH_ALLOWED
        settings = settings or []
        while (line := self._next()) is not None:
            if not line or line.startswith("#"):
                continue
            if _END.fullmatch(line):
                return Section(name, Block(tuple(settings), start), start, self._file)
            if begin := _BEGIN.fullmatch(line):
                self._not_closed(
                    settings,
                    f"section {shown(begin[1])} begins inside section {shown(name)}; close that with '}}' first",
                )
                self._index -= 1
                return Section(name, Block(tuple(settings), start), start, self._file)
            if (match := _SETTING.fullmatch(line)) is None:
                self._mistake(f"{shown(line)} is not understood; write 'attribute: value', or '}}' to end {name}")
            elif setting := self._setting(match[1], match[2]):
                settings.append(setting)
        self._not_closed(settings, f"section {shown(name)} is not closed; add '}}' after its last attribute", start)
        return Section(name, Block(tuple(settings), start), start, self._file)

    def _not_closed(self, settings: list[Setting], text: str, line: int = 0) -> None:
        """Report a section without its end; a brace behind its last value was meant to be that."""
        last = settings[-1] if settings else None
        if last is None or not isinstance(last.value, str) or not last.value.endswith(" }"):
            self._mistake(text, line)
            return
        self._mistake(f"'}}' stands behind the value of {last.name}; put it on a line of its own", last.line)
        settings[-1] = Setting(last.name, last.value[:-1].rstrip(), last.line)

    def _setting(self, name: str, rest: str) -> Setting | None:
        line = self._index
        if rest.startswith("{"):
            return self._block(name, rest)
        value = self._value(name, rest)
        if not value:
            self._mistake(f"{name} has no value; give one, or remove the line")
            return None
        if len(value) > 1 and value[0] == value[-1] == '"':
            quoted = shown_of(name, value, as_it_is=True)
            self._mistake(f"{name}: {quoted} is in quotes; in a .conf file, write the value without them")
            return None
        return Setting(name, value, line)

    def _value(self, name: str, rest: str) -> str:
        if camel_case(name) in self._with_hash:
            match = _WITH_HASH.fullmatch(rest)
            return match[1] if match else rest
        if name == "aliases":
            return without_comment(rest).strip()
        value, mark, _ = rest.partition("#")
        if mark and value and not value[-1].isspace():
            read = shown_of(name, value)
            text = f"'#' begins a comment, so {name} is {read}; put a space before it if you mean a comment"
            self._mistakes.append(Mistake(self._file, self._index, text, warning=True))
        return value.strip()

    def _block(self, name: str, rest: str) -> Setting | None:
        """Read the JSON block that begins with `rest`, the end of this line."""
        line = self._index
        begin = self._begins[line - 1] + self._lines[line - 1].index("{")
        reader = JsonText(self._text, begin, first_line=line, lenient=True)
        try:
            value = reader.value()
            reader.end_of_line()
        except ConfigSyntaxError as mistake:
            self._mistake(mistake.text, mistake.line)
            self._skip_block(rest)
            return None
        self._index = reader.line
        return Setting(name, value, line)

    def _skip_block(self, rest: str) -> None:
        """Continue after a mistake: skip the block that begins with `rest`."""
        depth = rest.count("{") - rest.count("}")
        while depth > 0 and (line := self._next()) is not None:
            depth += line.count("{") - line.count("}")

    def _peek(self) -> str:
        return self._lines[self._index].strip() if self._index < len(self._lines) else ""

    def _next(self) -> str | None:
        if self._index >= len(self._lines):
            return None
        self._index += 1
        return self._lines[self._index - 1].strip()

    def _mistake(self, text: str, line: int = 0) -> None:
        self._mistakes.append(Mistake(self._file, line or self._index, text))
