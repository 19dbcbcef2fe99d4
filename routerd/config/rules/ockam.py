"""Rules of listeners and connectors for Ockam nodes (docs/source-routes.md)."""

from collections.abc import Iterator

from routerd.config.entities.transport import Connector, Listener
from routerd.config.formats.source import Mistake, listed
from routerd.config.rules.check import Checked
from routerd.source_routes.address import parse_address

_OWN = ("framing", "routeAddress", "reach", "maxMessageSize")
_OF_AMQP = {
    "http": "http", "sslProfile": "ssl_profile", "requireSsl": "require_ssl",
    "requireEncryption": "require_encryption", "authenticatePeer": "authenticate_peer",
    "multiTenant": "multi_tenant", "saslUsername": "sasl_username", "saslPassword": "sasl_password",
    "policyVhost": "policy_vhost",
}  # fmt: skip
_LONGEST = 200  # octets of an address; a number is appended within 255


def check_ockam(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in entities with ``protocol: ockam``, and in attributes that only those may have."""
    for at in checked:
        if isinstance(at.entity, Listener | Connector):
            yield from _ockam(at, at.entity) if at.entity.protocol == "ockam" else _others(at)


def _ockam(at: Checked, one: Listener | Connector) -> Iterator[Mistake]:
    if one.role != "normal":
        yield at.mistake("role", f"{one.role} is for AMQP; leave it out, or protocol: ockam")
    for name, field in _OF_AMQP.items():
        if getattr(one, field, None):
            text = "is for AMQP, Ockam has nothing of the kind; leave it out, or protocol: ockam"
            yield at.mistake(name, text)
    if not one.route_address:
        text = "is missing; give the address that messages to there have in their routes, such as T13"
        yield at.mistake("routeAddress", text)
    else:
        yield from _address(at, "routeAddress", one.route_address)
    for word in listed(one.reach):
        yield from _address(at, "reach", word.removesuffix("*") or "x")


def _address(at: Checked, name: str, text: str) -> Iterator[Mistake]:
    try:
        if len(parse_address(text).value) > _LONGEST:
            yield at.mistake(name, f"{text[:40]!r}… has more than {_LONGEST} octets; give a shorter one")
    except ValueError as error:
        yield at.mistake(name, f"{error}; give a name or TYPE#NAME, such as T13 or 1#localhost:4000")


def _others(at: Checked) -> Iterator[Mistake]:
    for name in _OWN:
        if name in at.lines:
            yield at.mistake(name, "is for protocol: ockam; give that, or leave it out")
