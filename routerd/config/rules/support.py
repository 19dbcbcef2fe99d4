"""Entities and attributes that this version reads and does not serve.

Most of them are warnings: the router starts and says what it leaves out. Where that would allow access that
the configuration forbids, it is a mistake, and the router does not start.
"""

from collections.abc import Iterator

from routerd.config.entities.router import Router
from routerd.config.entities.transport import Listener
from routerd.config.formats.source import Mistake
from routerd.config.rules.check import Checked

NOT_YET = "is not served by this version"

# Entities without effect. An unused sslProfile has none either, but needs no warning.
UNSERVED_ENTITIES = {"console": "use a current management tool"}

# Attributes without effect, if they differ from their default.
UNSERVED_ATTRIBUTES: dict[type, dict[str, str]] = {
    Router: {
        "timestampFormat": "log times are written as 2026-11-21 06:34:17.123456 +0000",
        "timestampsInUTC": "set TZ=UTC in the environment instead",
        "debugDumpFile": "nothing is written to it",
    }
}

# Attributes of HTTP listeners that restrict access; ignoring them would let others in.
_PROTECTING_HTTP = ("multiTenant",)
_NEEDING_TLS = ("authenticatePeer", "requireSsl", "requireEncryption", "trustedCertsFile")


def check_support(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield warnings about what is not served, and mistakes where security is at stake."""
    for at in checked:
        if effect := UNSERVED_ENTITIES.get(at.type.name):
            yield at.mistake("", f"{NOT_YET}; {effect}", warning=True)
        for name, effect in UNSERVED_ATTRIBUTES.get(type(at.entity), {}).items():
            attribute = at.type.attributes[name]
            if name in at.lines and getattr(at.entity, attribute.field) != attribute.default:
                yield at.mistake(name, f"{NOT_YET}; {effect}", warning=True)
        if isinstance(at.entity, Listener):
            yield from _http(at, at.entity)


def _http(at: Checked, listener: Listener) -> Iterator[Mistake]:
    """Yield mistakes in HTTP listeners without TLS, which answer everybody in clear text."""
    if not listener.http:
        return
    if listener.sasl_plugin and not listener.websockets:
        yield at.mistake("saslPlugin", "does not protect an HTTP listener without websockets; remove it")
    for name in _PROTECTING_HTTP + (() if listener.ssl_profile else _NEEDING_TLS):
        if getattr(listener, at.type.attributes[name].field):
            instead = "remove it" if name in _PROTECTING_HTTP else "give it an sslProfile, too, or remove it"
            yield at.mistake(name, f"does not protect an HTTP listener; {instead}")
