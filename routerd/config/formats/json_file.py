"""The .json spelling: `[["listener", {"port": 5672}], …]` or `{"listener": [{"port": 5672}], …}`."""

from routerd.config.formats.json_text import JsonText
from routerd.config.formats.source import Array, Block, ConfigSyntaxError, Mistake, Section, Value, shown, shown_of


def parse(text: str, file: str, mistakes: list[Mistake]) -> list[Section]:
    """Return the sections of a .json text; append what cannot be read to `mistakes`."""
    try:
        document = JsonText(text).document()
    except ConfigSyntaxError as mistake:
        mistakes.append(Mistake(file, mistake.line, mistake.text))
        return []
    if isinstance(document, Array):
        return _pairs(document, file, mistakes)
    if isinstance(document, Block):
        return _members(document, file, mistakes)
    mistakes.append(Mistake(file, 1, f'{shown(document)} is not a configuration; write [["router", {{…}}], …]'))
    return []


def _pairs(document: Array, file: str, mistakes: list[Mistake]) -> list[Section]:
    sections: list[Section] = []
    for pair, line in zip(document.values, document.lines, strict=True):
        match pair:
            case Array(values=(str() as name, Block() as block)):
                sections.append(Section(name, block, line, file))
            case _:
                text = f'{shown(pair)} is not an entity; write ["listener", {{"port": 5672}}]'
                mistakes.append(Mistake(file, line, text))
    return sections


def _members(document: Block, file: str, mistakes: list[Mistake]) -> list[Section]:
    sections: list[Section] = []
    for member in document.settings:
        for value, line in _elements(member.value, member.line):
            if isinstance(value, Block):
                sections.append(Section(member.name, value, line, file))
            else:
                what = shown_of(member.name, value)
                text = f"{shown(member.name)} is {what}; give its attributes in braces, such as {{}}"
                mistakes.append(Mistake(file, line, text))
    return sections


def _elements(value: Value, line: int) -> list[tuple[Value, int]]:
    if isinstance(value, Array):
        return list(zip(value.values, value.lines, strict=True))
    return [(value, line)]
