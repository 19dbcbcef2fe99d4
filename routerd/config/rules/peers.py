"""Rules of listeners and connectors: roles that fit the router's mode, failover lists, OPEN properties."""

from collections.abc import Iterator

from routerd.config.entities.router import Router
from routerd.config.entities.transport import MAX_SESSIONS, MIN_FRAME_SIZE, Connector, Listener, failover_places
from routerd.config.formats.source import Mistake, shown
from routerd.config.rules.check import Checked, each

_OURS = frozenset(
    {"product", "version", "failover-server-list", "network-host", "port", "scheme", "hostname"}
)  # OPEN properties (AMQP 1.0 part 2.7.1) that the router sets itself
_OUR_PREFIXES = ("qd.", "x-opt-qd.")
_OF_ROUTERS = ("inter-router", "edge")


def check_peers(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in roles, failover lists and properties of listeners and connectors."""
    mode = next((router.mode for _, router in each(checked, Router)), Router().mode)
    for at in checked:
        if isinstance(at.entity, Listener | Connector):
            yield from _role(at, at.entity, mode)
            yield from _failover(at, at.entity.failover_urls)
            yield from _properties(at, at.entity)
            yield from _bounded(at, at.entity)


def _bounded(at: Checked, entity: Listener | Connector) -> Iterator[Mistake]:
    """Yield numbers in whose place another one counts, as in qdrouterd."""
    if entity.max_frame_size < MIN_FRAME_SIZE:
        text = f"{MIN_FRAME_SIZE} counts in place of {entity.max_frame_size}, as AMQP has no less; give that, or more"
        yield at.mistake("maxFrameSize", text, warning=True)
    if entity.max_sessions > MAX_SESSIONS:
        text = f"{MAX_SESSIONS} counts in place of {entity.max_sessions}; give that, or less"
        yield at.mistake("maxSessions", text, warning=True)


def _role(at: Checked, entity: Listener | Connector, mode: str) -> Iterator[Mistake]:
    role = entity.role
    if mode == "standalone" and role in _OF_ROUTERS:
        text = "role='standalone' not allowed to connect to or accept connections from other routers."
        advice = f"give it mode interior or edge, or the {at.type.short_name} another role"
        yield _of_role(at, f"{text} Here standalone is the router's mode: {advice}")
    elif (mode != "interior" and role == "inter-router") or (
        mode == "edge" and role == "edge" and isinstance(entity, Listener)
    ):
        text = f"role='{role}' only allowed with router mode='interior'"
        yield _of_role(at, f"{text}; give the router that mode, or another role")


def _of_role(at: Checked, text: str) -> Mistake:
    """Return a mistake whose text names the attribute itself."""
    return Mistake(at.file, at.line_of("role"), text)


def _failover(at: Checked, urls: str | None) -> Iterator[Mistake]:
    try:
        failover_places(urls or "")
    except ValueError as error:
        yield at.mistake("failoverUrls", str(error))


def _properties(at: Checked, entity: Listener | Connector) -> Iterator[Mistake]:
    name = "openProperties"
    if entity.open_properties and entity.role in _OF_ROUTERS:
        yield at.mistake(name, f"openProperties not allowed for role {entity.role}; remove them")
    for key in entity.open_properties or {}:
        if not key.isascii():
            yield at.mistake(name, f"Property keys must be ASCII encoded, and {shown(key)} is not; rename it")
        elif key in _OURS or key.startswith(_OUR_PREFIXES):
            text = f"Reserved key {shown(key)} not allowed in openProperties"
            yield at.mistake(name, f"{text}; the router says it itself, choose another")
