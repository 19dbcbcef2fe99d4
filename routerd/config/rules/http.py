"""Rules of HTTP listeners: comparable names and origins, and no AMQP over WebSockets by accident."""

from collections.abc import Iterator

from routerd.config.entities.policy import Policy
from routerd.config.entities.transport import Listener
from routerd.config.formats.source import Mistake, shown, words
from routerd.config.rules.check import Checked
from routerd.exporter.gate import ANY, is_allowed_host, origin_of
from shm.contract.hosts import is_loopback


def check_http(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in HTTP listeners."""
    policed = any(isinstance(at.entity, Policy) and at.entity.enable_vhost_policy for at in checked)
    for at in checked:
        if isinstance(at.entity, Listener):
            yield from _names(at, at.entity)
            if at.entity.http and at.entity.websockets and not policed:
                yield from _open(at, at.entity)


def _names(at: Checked, listener: Listener) -> Iterator[Mistake]:
    for word in words(listener.allowed_hosts):
        if not is_allowed_host(word):
            text = f"{shown(word)} is no host name; give names without port, as router.example.com"
            yield at.mistake("allowedHosts", text)
    for word in words(listener.allowed_origins):
        if word != ANY and origin_of(word) is None:
            text = f"{shown(word)} is no origin; give scheme and host, as https://app.example.com:8443"
            yield at.mistake("allowedOrigins", text)
    for name, given in (("allowedHosts", listener.allowed_hosts), ("allowedOrigins", listener.allowed_origins)):
        if given and not listener.http:
            yield at.mistake(name, "has no effect without http: yes; remove it", warning=True)


def _open(at: Checked, listener: Listener) -> Iterator[Mistake]:
    """Yield warnings: a listener meant for metrics also serves WebSockets."""
    if listener.authenticate_peer or listener.sasl_plugin:
        return
    otherwise = "say authenticatePeer: yes, or websockets: no if it is for metrics and the page only"
    if ANY in words(listener.allowed_origins):
        text = f"lets every web page use the router without a login; name the pages, {otherwise}"
        yield at.mistake("allowedOrigins", text, warning=True)
    elif not is_loopback(listener.host):
        text = f"serves AMQP over WebSockets to everybody who reaches it, without a login; {otherwise}"
        yield at.mistake("http", text, warning=True)
