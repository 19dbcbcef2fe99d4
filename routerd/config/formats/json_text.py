"""JSON with line numbers: the reader of .json files and of blocks in .conf files.

Like qdrouterd it also accepts comments from `#` to the end of the line and a comma after the last element.
`lenient` accepts names without quotes, and values without quotes up to the end of their line, where `#` may
be a wildcard.
"""

import json
import re

from routerd.config.formats.source import Array, Block, ConfigSyntaxError, Setting, Value, shown

MAX_DEPTH = 32
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair, which JSON can name alone
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_LITERAL = re.compile(r"(?:true|false|null|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?=[\s,}\]#]|\Z)", re.ASCII)
_BARE_NAME = re.compile(r"(?!(?:true|false|null|[0-9]+)\b)[\w.$*#@/-]+", re.ASCII)  # not a JSON value
_BARE_VALUE = re.compile(r"[^\n]+")
_HASH = re.compile(r"(?:^|\s)(#)")
_WILD = re.compile(r"#(?=[./]|\s*(?:,|$))")
_BELOW = ("{", "[", '"', "")  # a value may stand below its name if it begins with one of these
_NO_NUMBER_LONGER_THAN = 100
_decoder = json.JSONDecoder()


def without_comment(text: str) -> str:
    """Return the value in the rest of a line, without its comment.

    `#` after a blank begins a comment, unless it is a word of a list: first or after a comma, and alone or
    before a separator, as in `#`, `#.${user}`, `a, #, b`.
    """
    for found in _HASH.finditer(text):
        before = text[: found.start(1)].rstrip()
        if (before and before[-1] != ",") or not _WILD.match(text, found.start(1)):
            return before
    return text


class JsonText:
    """Reads one value from a position of `text`, which is in line `first_line`."""

    def __init__(self, text: str, position: int = 0, first_line: int = 1, lenient: bool = False) -> None:
        self._text = text
        self._position = position
        self._lenient = lenient
        self._counted = (position, first_line)  # a position and its line: each line is counted once

    @property
    def line(self) -> int:
        """The line of the next character."""
        position, line = self._counted
        line += self._text.count("\n", position, self._position)
        self._counted = (self._position, line)
        return line

    def document(self) -> Value:
        """Return the one value that the whole text holds. Raises ConfigSyntaxError."""
        value = self.value()
        self._skip(_BLANK)
        if self._position < len(self._text):
            raise self._mistake(f"{self._next_word()} follows the end of the document; remove it")
        return value

    def end_of_line(self) -> None:
        """Skip the rest of the line; it may hold only a comma or comment. Raises ConfigSyntaxError."""
        end = self._text.find("\n", self._position)
        rest = self._text[self._position : end if end >= 0 else len(self._text)]
        if rest.strip(" \t\r,") and not rest.strip(" \t\r,").startswith("#"):
            raise self._mistake(f"{shown(rest.strip())} follows the block; put it on its own line")

    def value(self, depth: int = 0) -> Value:
        """Return the next value. Raises ConfigSyntaxError."""
        self._skip(_BLANK)
        if depth > MAX_DEPTH:
            raise self._mistake(f"blocks are nested more than {MAX_DEPTH} deep; put fewer into each other")
        first = self._text[self._position : self._position + 1]
        if first == "{":
            return self._object(depth)
        if first == "[":
            return self._array(depth)
        if first == '"':
            return self._string()
        if literal := _LITERAL.match(self._text, self._position):
            return self._literal(literal)
        if self._lenient and first not in ("", "}", "]", ","):
            return self._bare_value()
        if first == "":
            raise self._mistake("the text ends too early; close every '{', '[' and quote")
        raise self._mistake(f"{self._next_word()} is not a JSON value; put text in double quotes")

    def _object(self, depth: int) -> Block:
        start = self.line
        self._position += 1
        settings: list[Setting] = []
        while self._more("}", start, after_first=bool(settings)):
            line = self.line
            name = self._name()
            self._skip(_BLANK)
            if not self._text.startswith(":", self._position):
                raise self._mistake(f"{self._next_word()} follows a name without a colon; write name: value")
            self._position += 1
            settings.append(Setting(name, self._value_of(name, depth), line))
        return Block(tuple(settings), start)

    def _value_of(self, name: str, depth: int) -> Value:
        """Return the value after a name and a colon; one without quotes or braces ends with its line."""
        if self._lenient:
            end = self._text.find("\n", self._position)
            rest = self._text[self._position : end if end >= 0 else len(self._text)]
            here = without_comment(rest).strip(" \t\r,")
            if here.startswith("#"):
                return self._bare_value()
            line = self.line
            self._skip(_BLANK)
            if not here and self._text[self._position : self._position + 1] not in _BELOW:
                raise ConfigSyntaxError(line, f"{name} has no value; give one, or remove the line")
        return self.value(depth + 1)

    def _array(self, depth: int) -> Array:
        start = self.line
        self._position += 1
        values: list[Value] = []
        lines: list[int] = []
        while self._more("]", start, after_first=bool(values)):
            lines.append(self.line)
            values.append(self.value(depth + 1))
        return Array(tuple(values), tuple(lines))

    def _more(self, closing: str, start: int, after_first: bool) -> bool:
        """Whether another element follows; skips the comma before it, or the closing bracket."""
        self._skip(_BLANK)
        comma = after_first and self._text.startswith(",", self._position)
        if comma:
            self._position += 1
            self._skip(_BLANK)
        if self._text.startswith(closing, self._position):
            self._position += 1
            return False
        if self._position >= len(self._text):
            raise ConfigSyntaxError(start, f"what begins here is not closed; put '{closing}' at its end")
        if after_first and not comma and not self._lenient:
            raise self._mistake(f"{self._next_word()} follows without a comma; put ',' or '{closing}' before it")
        return True

    def _name(self) -> str:
        if self._text.startswith('"', self._position):
            return self._string()
        if self._lenient and (bare := _BARE_NAME.match(self._text, self._position)):
            self._position = bare.end()
            return bare[0]
        raise self._mistake(f"{self._next_word()} is not a name. Expecting property name in double quotes")

    def _string(self) -> str:
        try:
            value, self._position = _decoder.raw_decode(self._text, self._position)
        except ValueError as error:
            raise self._mistake(f"this text in quotes cannot be read ({_reason(error)}); end it on its line") from None
        assert isinstance(value, str)
        if half := _HALF.search(value):
            raise self._mistake(f"this text in quotes has half a character, {shown(half[0])}; give a whole one")
        return value

    def _literal(self, match: re.Match[str]) -> Value:
        text = match[0]
        if len(text) > _NO_NUMBER_LONGER_THAN:
            raise self._mistake(f"the number {shown(text)} is too long; give one that fits 64 bits")
        try:
            value: Value = json.loads(text)
        except ValueError:
            raise self._mistake(f"{shown(text)} is not a number; write it without leading zeros") from None
        self._position = match.end()
        return value

    def _bare_value(self) -> str:
        match = _BARE_VALUE.match(self._text, self._position)
        assert match is not None
        self._position = match.end()
        return without_comment(match[0]).strip(" \t\r,")

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._position)
        assert match is not None
        self._position = match.end()

    def _next_word(self) -> str:
        line = self._text[self._text.rfind("\n", 0, self._position) + 1 : self._position]
        if "passw" in line.lower():
            return "the text there"
        match = re.compile(r"\S{1,40}").match(self._text, self._position)
        return shown(match[0]) if match else "the end of the text"

    def _mistake(self, text: str) -> ConfigSyntaxError:
        return ConfigSyntaxError(self.line, text)


def _reason(error: ValueError) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)
