"""Applies a management request to a configuration: the configuration that results, or why there is none.

The rules of a configuration file hold for entities from requests, alone and together. Such an entity lives
as long as the supervisor, through new cores and workers and through reloads, unless the file read again
contradicts it. A reload restores what the file says of its own entities.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from routerd.config import Config
from routerd.config.entities.attribute import Attribute
from routerd.config.entities.policy import Policy, Vhost
from routerd.config.entities.router import Log, Router
from routerd.config.entities.routing import Binding, Exchange
from routerd.config.entities.schema import EntityType, entity_type
from routerd.config.entities.transport import Listener
from routerd.config.formats.json_text import JsonText
from routerd.config.formats.source import Array, Block, ConfigSyntaxError, Mistake, Section, Setting, Value, camel_case
from routerd.config.load import assemble, check_together
from routerd.config.rules.check import Checked, check
from routerd.config.rules.relations import unusable_log
from routerd.config.rules.security import conflicts
from routerd.reload.reach import out_of_reach
from routerd.translate.identities import Identities
from shm.contract.control import ChangeRequest

CREATED, UPDATED, DELETED = 201, 200, 204
BAD_REQUEST, FORBIDDEN, NOT_FOUND, INTERNAL, NOT_IMPLEMENTED = 400, 403, 404, 500, 501

REQUEST = "management request "  # and a number, in place of the file, for entities of no file

MOST_LISTED = 20  # mistakes listed in one answer
_requests = itertools.count(1)


class ChangeError(Exception):
    """A change is impossible; it has a management status (AMQP management WD9, 3.2) and a reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Changed(msgspec.Struct, frozen=True):
    """A configuration after a change; `entity` is the one created or updated, `remarks` are about it."""

    config: Config
    status: int
    entity: Checked | None = None
    remarks: tuple[str, ...] = ()


def changed(config: Config, request: ChangeRequest, identities: Identities) -> Changed:
    """Return the configuration after a request. Raises ChangeError."""
    kind = entity_type(request.kind)
    if kind is None or request.operation not in kind.operations:
        raise ChangeError(NOT_IMPLEMENTED, f"{request.operation} is not implemented for {request.kind}")
    _within_reach(config, kind, request, identities)
    if kind.entity is Log:
        _log_opens(request)
    everything = list(config.checked)
    if request.operation == "CREATE":
        made = _made(kind, _block(kind, request, "create"), _next_place())
        _name_taken(config, made[0])
        _check_policy(made[0])
        return _together(config, [*everything, made[0]], CREATED, *made)
    at = _find(config, kind, request, identities)
    if at is None:
        if kind.entity not in (Log, Router, Policy):
            raise ChangeError(NOT_FOUND, f"there is no {kind.short_name} {request.identity}")
        made = _made(kind, _block(kind, request, "update"), _next_place())
        return _together(config, [*everything, made[0]], UPDATED, *made)
    old = everything.pop(at)
    if request.operation == "DELETE":
        _keep_a_listener(config, old, everything)
        return _together(config, _without_bindings(everything, old), DELETED)
    made = _made(kind, _block(kind, request, "update", old), old.file, old)
    _check_policy(made[0])
    everything.insert(at, made[0])
    return _together(config, everything, UPDATED, *made)


def _keep_a_listener(config: Config, gone: Checked, left: Iterable[Checked]) -> None:
    """Refuse to delete the last listener for clients, as a reload does. Raises ChangeError."""
    if not config.router.allow_no_listener and _for_clients(gone) and not any(map(_for_clients, left)):
        raise ChangeError(
            BAD_REQUEST,
            "it is the last listener for clients, so nobody could connect to manage this router; create another one "
            "before, or set allowNoListener: yes in router if you intend that",
        )


def _for_clients(at: Checked) -> bool:
    return isinstance(at.entity, Listener) and at.entity.for_clients


def _name_taken(config: Config, made: Checked) -> None:
    """Refuse a second entity of a name, in qdrouterd's words and with the first's place.

    Raises ChangeError.
    """
    if not made.type.name.startswith("router.config.") or not made.entity.name:
        return
    for at in config.checked:
        if (at.type.name, at.entity.name) == (made.type.name, made.entity.name):
            where = f"{made.entity.name!r} is already used {at.where(made)}"
            raise ChangeError(BAD_REQUEST, f"Name conflicts with an existing entity: {where}; give another")


def _check_policy(made: Checked) -> None:
    """Refuse a vhost with contradictory groups, in qdrouterd's words. Raises ChangeError."""
    if isinstance(made.entity, Vhost) and (wrong := list(conflicts(made.entity))):
        text = f"PolicyError: Policy {made.entity.hostname!r} is invalid: {wrong[0][2]}"
        raise ChangeError(INTERNAL, text)


def _within_reach(config: Config, kind: EntityType, request: ChangeRequest, identities: Identities) -> None:
    """Check that new file names lie in directories that a request may name. Raises ChangeError."""
    at = None if request.operation == "CREATE" else _find(config, kind, request, identities)
    old = None if at is None else config.checked[at].entity
    for name, value in request.attributes.items():
        attribute = kind.attribute(camel_case(name))
        if attribute is None or (old is not None and getattr(old, attribute.field) == value):
            continue
        if why := out_of_reach(config, attribute, value):
            raise ChangeError(FORBIDDEN, f"{kind.short_name} {attribute.name}: {why}")


def _log_opens(request: ChangeRequest) -> None:
    """Check that a log file can be opened; otherwise answer in qdrouterd's words. Raises ChangeError."""
    for name, file in request.attributes.items():
        if camel_case(name) not in ("outputFile", "output"):
            continue
        if isinstance(file, str) and (why := unusable_log(file)):
            text = f"CError: Configuration: Failed to open log file '{file}': {why}"
            raise ChangeError(INTERNAL, text)


def kept(old: Config, new: Config) -> tuple[Config, list[str]]:
    """Return a file read again, with what requests had created, and why some of that is dropped."""
    made = [at for at in old.checked if at.file.startswith(REQUEST)]
    dropped: list[str] = []
    while made:
        mistakes = [one for one in check_together([*new.checked, *made]) if not one.warning]
        wrong = {one.file: one.text for one in reversed(mistakes)}
        if not any(at.file in wrong for at in made):
            break
        dropped += [wrong[at.file] for at in made if at.file in wrong]
        made = [at for at in made if at.file not in wrong]
    if not made:
        return new, dropped
    return _with(new, [*new.checked, *made], ()), dropped


def _without_bindings(everything: list[Checked], gone: Checked) -> list[Checked]:
    """Remove the bindings of a deleted exchange."""
    if not isinstance(gone.entity, Exchange):
        return everything
    name = gone.entity.name
    return [at for at in everything if not (isinstance(at.entity, Binding) and at.entity.exchange_name == name)]


def _together(
    config: Config,
    everything: Sequence[Checked],
    status: int,
    entity: Checked | None = None,
    remarks: Iterable[Mistake] = (),
) -> Changed:
    """Return the configuration of all these entities. Raises ChangeError for mistakes that are new."""
    found = check_together(list(everything))
    mistakes = [one for one in found if not one.warning]
    wrong = [one.text for one in remarks if not one.warning]
    if mistakes or wrong:
        before = {one.text for one in check_together(list(config.checked))}
        new = dict.fromkeys([one.text for one in mistakes if one.text not in before] + wrong)
        if new:
            still = f"it is needed{_by_whom(mistakes, everything)}: " if status == DELETED else ""
            raise ChangeError(BAD_REQUEST, still + _joined(new))
    about = [one for one in found if one.warning and entity is not None and one.file == entity.file]
    about = [*remarks, *(one for one in about if entity is None or one.line == entity.line)]
    return Changed(_with(config, everything, about), status, entity, tuple(dict.fromkeys(one.text for one in about)))


def _by_whom(mistakes: Sequence[Mistake], everything: Sequence[Checked]) -> str:
    """Name the entities that have mistakes, by type and name, where they have names."""
    places = {(one.file, one.line) for one in mistakes}
    names = [
        f"{at.type.short_name} {at.entity.name}"
        for at in everything
        if at.entity.name and places & {(at.file, line) for line in (at.line, *at.lines.values())}
    ]
    return f" by {', '.join(names[:MOST_LISTED])}" if names else ""


def _with(config: Config, everything: Sequence[Checked], remarks: Iterable[Mistake]) -> Config:
    warnings = {*config.warnings, *remarks}
    return msgspec.structs.replace(assemble(config.file, everything, warnings, config.router.id), count=config.count)


def _next_place() -> str:
    return f"{REQUEST}{next(_requests)}"


def named(config: Config, identities: Identities) -> list[str]:
    """Return the identity of each entity, in order; that of the router has its id, even a generated one."""
    entities = (at.entity for at in config.checked)
    return identities.of(config.router if isinstance(one, Router) else one for one in entities)


def _find(config: Config, kind: EntityType, request: ChangeRequest, identities: Identities) -> int | None:
    """Return the index of the entity, or None for a default entity that nothing configures."""
    for i, (at, identity) in enumerate(zip(config.checked, named(config, identities), strict=True)):
        if at.type is kind and identity == request.identity:
            return i
    return None


def _made(kind: EntityType, block: Block, file: str, old: Checked | None = None) -> tuple[Checked, list[Mistake]]:
    """Return the entity that a block describes, and remarks. Raises ChangeError if it describes none."""
    mistakes: list[Mistake] = []
    line = 0 if old is None else old.line
    checked = check([Section(kind.name, block, line, file)], mistakes)
    if not checked:
        wrong = [one.text for one in mistakes if not one.warning]
        raise ChangeError(BAD_REQUEST, _joined(wrong) or f"{kind.short_name} cannot be made")
    return checked[0], mistakes


def _joined(mistakes: Iterable[str]) -> str:
    """Join mistakes in one text, at most MOST_LISTED of them."""
    listed = list(mistakes)
    more = f"; and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
    return "; ".join(listed[:MOST_LISTED]) + more


def _block(kind: EntityType, request: ChangeRequest, right: str, old: Checked | None = None) -> Block:
    """Return the settings of a request over those that the entity had before."""
    given: dict[str, Setting] = {}
    if old is not None:
        given = {camel_case(setting.name): setting for setting in old.block.settings}
    elif right == "update" and kind.entity is Log:
        _, _, key = request.identity.partition("/")
        given["module"] = Setting("module", key, 0)  # the entity of a module that nothing configures
    for name, value in request.attributes.items():
        attribute = kind.attribute(camel_case(name))
        if attribute is not None and not getattr(attribute, right):
            verb = "given by" if right == "create" else "changed by"
            raise ChangeError(BAD_REQUEST, f"{kind.short_name} {name}: cannot be {verb} {request.operation}")
        for known in (name, *((attribute.name, *attribute.old_names) if attribute else ())):
            given.pop(known, None)
        if value is not None:
            given[name] = Setting(name, _value(kind, attribute, value), 0)
    return Block(tuple(given.values()), 0 if old is None else old.block.line)


_TEXTS = frozenset(("prefix", "pattern"))  # a file holds only texts; a request must give these as strings


def _value(kind: EntityType, attribute: Attribute | None, value: Any) -> Value:
    """Return a value in the form of a file's values; a map may be given as JSON text."""
    if attribute is not None and attribute.kind in ("map", "groups") and isinstance(value, str):
        try:
            return JsonText(value).document()
        except ConfigSyntaxError as error:
            raise ChangeError(BAD_REQUEST, f"{kind.short_name} {attribute.name}: {error.text}") from error
    if attribute is not None and attribute.name in _TEXTS and not isinstance(value, str):
        raise ChangeError(
            BAD_REQUEST, f"{kind.short_name} {attribute.name}: {value!r} is not an address; give a string"
        )
    return _settings(value)


def _settings(value: Any) -> Value:
    if isinstance(value, dict):
        return Block(tuple(Setting(str(name), _settings(one), 0) for name, one in value.items()), 0)
    if isinstance(value, list):
        return Array(tuple(map(_settings, value)), (0,) * len(value))
    return value if isinstance(value, str | int | float | bool | None) else str(value)
