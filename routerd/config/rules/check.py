"""Checks each section against its entity's declaration: unknown names, wrong values, missing attributes."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from routerd.config.entities.attribute import Attribute, Entity
from routerd.config.entities.schema import ENTITY_TYPES, USER_GROUP, VHOST, EntityType, entity_type
from routerd.config.formats.closest import closest
from routerd.config.formats.source import Block, Mistake, Section, Setting, camel_case, shown
from routerd.config.rules.values import WrongValueError, convert, expected

E = TypeVar("E", bound=Entity)

DOCUMENTATION = "docs/configuration.md"
_ALREADY: Final = "is already set in line {}; this value counts, remove the other"

# Entities and attributes of early versions of qdrouterd that 1.19 does not take, and what has taken their place.
SUCCESSORS: Final = {
    "container": "router", "fixedAddress": "address", "linkRoutePattern": "linkRoute", "policyRuleset": "vhost",
    "addr": "host", "defaultApplication": "defaultVhost", "enableAccessRules": "enableVhostPolicy",
    "maximumConnections": "maxConnections", "policyFolder": "policyDir",
}  # fmt: skip
# Entities of qdrouterd and skupper-router by which they carry what is no AMQP.
FOREIGN: Final = frozenset({"tcpListener", "tcpConnector", "httpListener", "httpConnector"})


class Checked(Struct, frozen=True):
    """An entity and the lines of its attributes; a wrong attribute has its default.

    `block` is what was given. An entity without a file has line 0.
    """

    entity: Entity
    type: EntityType
    block: Block
    file: str
    line: int
    lines: dict[str, int]  # lines of the given attributes by their present names
    wrong: frozenset[str] = frozenset()

    def where(self, other: "Checked") -> str:
        """Return this entity's place, for a mistake in the other."""
        if not self.line:
            return "in a management request"
        return f"in line {self.line}" if self.file == other.file else f"in {self.file}:{self.line}"

    def line_of(self, attribute: str) -> int:
        return self.lines.get(attribute, self.line)

    def value(self, attribute: str) -> Any:
        """Return the value of an attribute by its name in files."""
        return getattr(self.entity, self.type.attributes[attribute].field)

    def mistake(self, attribute: str, text: str, *, warning: bool = False) -> Mistake:
        """Return a mistake in an attribute, at its line or else at the line of the entity."""
        about = f"{self.type.short_name} {attribute}".rstrip()
        return Mistake(self.file, self.line_of(attribute), f"{about}: {text}", warning)


def each(checked: Iterable[Checked], entity: type[E]) -> Iterator[tuple[Checked, E]]:
    """Yield the entities of one type, each with what was given."""
    for at in checked:
        if isinstance(at.entity, entity):
            yield at, at.entity


def check(sections: list[Section], mistakes: list[Mistake]) -> list[Checked]:
    """Return the entities of sections; append mistakes to the list."""
    checked = []
    for section in sections:
        found = entity_type(section.type)
        if found is None:
            mistakes.append(Mistake(section.file, section.line, _unknown_entity(section.type)))
        elif entity := _Checker(found, section.block, section.file, section.line, mistakes).entity():
            checked.append(entity)
    return checked


def _unknown_entity(name: str) -> str:
    names = [t.short_name for t in ENTITY_TYPES]
    if successor := SUCCESSORS.get(camel_case(name)):
        return f"there is no entity {shown(name)} any more; write {successor} instead"
    if camel_case(name) in FOREIGN:
        return f"there is no entity {shown(name)}: routerd carries no TCP or HTTP; leave that service to another router"
    guess = closest(name, names)
    instead = f"did you mean {shown(guess)}?" if guess else f"give one of {', '.join(names)}"
    return f"there is no entity {shown(name)}; {instead}"


class _Checker:
    """Checks one block of settings against one entity type."""

    def __init__(self, type_: EntityType, block: Block, file: str, line: int, mistakes: list[Mistake]) -> None:
        self._type = type_
        self._block = block
        self._file = file
        self._line = line
        self._mistakes = mistakes
        self._wrong: set[str] = set()
        self._lines: dict[str, int] = {}
        self._values: dict[str, object] = {}

    def entity(self) -> Checked | None:
        """Return the entity, or None if a required attribute is missing or wrong."""
        seen: dict[str, Setting] = {}
        for setting in self._block.settings:
            self._setting(setting, seen)
        required = [attribute for attribute in self._type.attributes.values() if attribute.required]
        for attribute in required:
            if attribute.name not in self._lines:
                self._mistake(self._line, f"{attribute.name}: is missing; give {expected(attribute)}")
        if any(attribute.name not in self._values for attribute in required):
            return None
        try:
            entity = msgspec.convert({**self._values, "line": self._line}, self._type.entity)
        except msgspec.ValidationError as error:  # msgspec is stricter than the checks above
            self._mistake(self._line, f"is not valid ({error}); see {DOCUMENTATION}")
            return None
        return Checked(entity, self._type, self._block, self._file, self._line, self._lines, frozenset(self._wrong))

    def _setting(self, setting: Setting, seen: dict[str, Setting]) -> None:
        name = camel_case(setting.name)
        attribute = self._type.attribute(name)
        if attribute is None:
            if self._type is USER_GROUP and VHOST.attribute(name):
                self._warn(setting.line, f"{name}: has no effect in a group; write it in the vhost")
            else:
                self._mistake(setting.line, self._unknown_attribute(setting.name))
            return
        if not attribute.create:
            self._warn(setting.line, f"{name}: is reported by the router and cannot be set; remove it")
            return
        if name != attribute.name:
            old = f"Attribute '{name}' of entity '{self._name}' has been deprecated"
            self._warn(setting.line, f"{name}: {old}. Use '{attribute.name}' instead")
        if attribute.deprecated:
            self._warn(setting.line, f"{name}: is deprecated: {attribute.description}")
        if earlier := seen.get(attribute.name):
            self._repeated(setting, earlier, attribute)
        seen[attribute.name] = setting
        self._lines[attribute.name] = setting.line
        self._convert(setting, attribute)

    def _convert(self, setting: Setting, attribute: Attribute) -> None:
        try:
            if attribute.kind == "groups":
                self._values[attribute.name] = self._groups(setting, attribute)
            else:
                self._values[attribute.name] = convert(attribute, setting.value)
        except WrongValueError as error:
            self._wrong.add(attribute.name)
            self._mistake(setting.line, f"{attribute.name}: {_hidden(attribute, error)}")

    def _repeated(self, setting: Setting, earlier: Setting, attribute: Attribute) -> None:
        if camel_case(setting.name) == camel_case(earlier.name):
            self._warn(setting.line, f"{attribute.name}: {_ALREADY.format(earlier.line)}")
        else:
            old, new = sorted((setting.name, earlier.name), key=lambda name: name == attribute.name)
            text = f"Both '{old}' and '{new}' cannot be specified for entity '{self._name}'; remove one"
            self._mistake(setting.line, f"{attribute.name}: {text}")

    def _unknown_attribute(self, name: str) -> str:
        known = [a.name for a in self._type.attributes.values() if a.create]
        if (successor := SUCCESSORS.get(camel_case(name))) in known:
            return f"{name}: there is no such attribute any more; write {successor} instead"
        if guess := closest(name, known):
            return f"{name}: there is no such attribute; did you mean {guess}?"
        others = [t.short_name for t in ENTITY_TYPES if t.attribute(camel_case(name))]
        if others:
            return f"{name}: there is no such attribute; it belongs to {' or '.join(others)}"
        return f"{name}: there is no such attribute; remove it ({DOCUMENTATION} lists what {self._name} takes)"

    def _groups(self, setting: Setting, attribute: Attribute) -> dict[str, object]:
        """Check the user groups of a vhost: each value is a block of attributes."""
        if not isinstance(setting.value, Block):
            raise WrongValueError(f"{shown(setting.value)} does not fit; give {expected(attribute)}")
        groups: dict[str, object] = {}
        lines: dict[str, int] = {}
        for group in setting.value.settings:
            if (earlier := lines.get(group.name)) is not None:
                self._warn(group.line, f"groups {group.name}: {_ALREADY.format(earlier)}")
            lines[group.name] = group.line
            if not isinstance(group.value, Block):
                self._mistake(group.line, f"groups {group.name}: {shown(group.value)} does not fit; give settings")
                continue
            checked = _Checker(USER_GROUP, group.value, self._file, group.line, self._mistakes).entity()
            if checked is not None:
                groups[group.name] = msgspec.to_builtins(checked.entity)
        return groups

    @property
    def _name(self) -> str:
        return self._type.short_name

    def _mistake(self, line: int, text: str) -> None:
        self._mistakes.append(Mistake(self._file, line, f"{self._name} {text}"))

    def _warn(self, line: int, text: str) -> None:
        self._mistakes.append(Mistake(self._file, line, f"{self._name} {text}", warning=True))


def _hidden(attribute: Attribute, error: WrongValueError) -> str:
    """Return what is wrong with a value, without the value of a secret."""
    if not attribute.secret:
        return str(error)
    return f"its value does not fit; give {expected(attribute)} without control characters"
