"""Reads a configuration file into a checked configuration with all defaults."""

import os
import secrets
import string
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from routerd.config.entities.attribute import Entity
from routerd.config.entities.policy import Policy
from routerd.config.entities.router import Log, Router
from routerd.config.entities.routing import Address
from routerd.config.entities.transport import Listener
from routerd.config.formats import conf_file, json_file, toml_file
from routerd.config.formats.source import Block, ConfigError, Mistake, Section, Setting, read
from routerd.config.policy_dir import policy_sections
from routerd.config.rules.auth_service import check_auth_services
from routerd.config.rules.check import Checked, check
from routerd.config.rules.doors import check_doors
from routerd.config.rules.flow_log import check_flow_log
from routerd.config.rules.http import check_http
from routerd.config.rules.peers import check_peers
from routerd.config.rules.protocols import check_protocols
from routerd.config.rules.relations import check_relations
from routerd.config.rules.route_tables import check_route_tables
from routerd.config.rules.route_workers import check_route_workers
from routerd.config.rules.security import check_security
from routerd.config.rules.support import check_support
from routerd.config.rules.tracing import check_tracing

_ID_ALPHABET = string.ascii_letters + string.digits + "_"
_ID_LENGTH = 15

E = TypeVar("E", bound=Entity)
_Parser = Callable[[str, str, list[Mistake]], list[Section]]


class Config(Struct, frozen=True, kw_only=True):
    """A configuration that can start a router.

    `listeners` have their linkCapacity filled in; `entities` are all other entities. `router.id` is never
    empty. `count` is the number of entities in the file. `checked` holds all entities as they were given, in
    the file or by management.
    """

    file: str
    router: Router
    policy: Policy
    listeners: tuple[Listener, ...]
    addresses: tuple[Address, ...]
    logs: tuple[Log, ...]
    entities: tuple[Entity, ...] = ()
    warnings: tuple[Mistake, ...] = ()
    count: int = 0
    checked: tuple[Checked, ...] = ()

    def of(self, kind: type[E]) -> tuple[E, ...]:
        """Return the other entities of a type."""
        return tuple(entity for entity in self.entities if isinstance(entity, kind))


def default_config() -> Config:
    """Return the configuration without a file: a standalone router on port 5672 of the loopback address."""
    settings = {"host": "127.0.0.1", "port": "amqp", "saslMechanisms": "ANONYMOUS"}
    block = Block(tuple(Setting(name, value, 0) for name, value in settings.items()), 0)
    return assemble("", check([Section("listener", block, 0, "")], []))


def load(path: str | os.PathLike[str], router_id: str = "", *, regular: bool = False) -> Config:
    """Read and check a .conf, .json or .toml file. Raises ConfigError with every mistake in it.

    `router_id` is the id of a router whose file gives none; without either the router gets a random id. A router that
    runs reads a `regular` file only; one that starts may have its configuration from a pipe.
    """
    file = os.fspath(path)
    advice = "give a .conf, .json or .toml file that the router's user may read"
    return parse(read(file, advice, regular=regular), file, router_id)


def parse(text: str, file: str, router_id: str = "") -> Config:
    """Check the text of a file as `load` does; the file's name tells the format."""
    mistakes: list[Mistake] = []
    sections = _parser(file)(text, file, mistakes)
    misread = any(not mistake.warning for mistake in mistakes)
    sections += policy_sections(sections, mistakes)
    checked = check(sections, mistakes)
    if misread:  # what stands where it does not belong, or lacks its end, would contradict the rest
        raise ConfigError(mistakes)
    wrong = {_subject(mistake) for mistake in mistakes if not mistake.warning}
    mistakes.extend(mistake for mistake in check_together(checked) if _subject(mistake) not in wrong)
    if any(not mistake.warning for mistake in mistakes):
        raise ConfigError(mistakes)
    return assemble(file, checked, mistakes, router_id)


def check_together(checked: list[Checked]) -> list[Mistake]:
    """Return mistakes of entities together; each entity by itself has none."""
    return [
        *check_relations(checked),
        *check_peers(checked),
        *check_route_tables(checked),
        *check_protocols(checked),
        *check_route_workers(checked),
        *check_flow_log(checked),
        *check_tracing(checked),
        *check_security(checked),
        *check_doors(checked),
        *check_auth_services(checked),
        *check_http(checked),
        *check_support(checked),
    ]


def _subject(mistake: Mistake) -> tuple[int, str]:
    """Return the line and attribute of a mistake: only the first mistake in an attribute is reported."""
    return mistake.line, mistake.text.partition(":")[0]


def assemble(file: str, checked: Sequence[Checked], mistakes: Iterable[Mistake] = (), router_id: str = "") -> Config:
    """Return the configuration of entities without mistakes; `mistakes` are only warnings."""
    warnings = list(mistakes)
    router = _with_id(next(iter(_all(checked, Router)), Router()), router_id)
    listeners = _all(checked, Listener)
    if not listeners:
        text = "there is no listener, so nobody can connect; add one, such as a listener with port: amqp"
        warnings.append(Mistake(file, 1, text, warning=True))
    apart = (Router, Policy, Listener, Address, Log)
    return Config(
        file=file,
        router=router,
        policy=next(iter(_all(checked, Policy)), Policy()),
        listeners=tuple(_with_capacity(listener, router) for listener in listeners),
        addresses=tuple(_all(checked, Address)),
        logs=tuple(_all(checked, Log)),
        entities=tuple(at.entity for at in checked if not isinstance(at.entity, apart)),
        warnings=tuple(sorted(warnings)),
        count=len(checked),
        checked=tuple(checked),
    )


def _all(checked: Sequence[Checked], entity: type[E]) -> list[E]:
    return [at.entity for at in checked if isinstance(at.entity, entity)]


def _with_id(router: Router, otherwise: str = "") -> Router:
    if router.id:
        return router
    if otherwise:
        return msgspec.structs.replace(router, id=otherwise)
    random = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    return msgspec.structs.replace(router, id=f"{router.mode.capitalize()}_{random}")


def _with_capacity(listener: Listener, router: Router) -> Listener:
    return msgspec.structs.replace(listener, link_capacity=listener.link_capacity or router.link_capacity)


def _parser(file: str) -> _Parser:
    parsers: dict[str, _Parser] = {".json": json_file.parse, ".toml": toml_file.parse}
    return parsers.get(Path(file).suffix.lower(), conf_file.parse)
