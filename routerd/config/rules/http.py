"""Rules of HTTP listeners: comparable names and origins, and no AMQP over WebSockets by accident."""

from collections.abc import Iterator

from routerd.config.entities.policy import Policy
from routerd.config.entities.transport import Listener
from routerd.config.formats.source import Mistake, shown, words
from routerd.config.rules.check import Checked, each
from routerd.exporter.gate import ANY, is_allowed_host, origin_of
from shm.contract.hosts import is_loopback

_NEEDING_TLS = ("authenticatePeer", "requireSsl", "requireEncryption", "trustedCertsFile")


def check_http(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in HTTP listeners."""
    policed = any(policy.enable_vhost_policy for _, policy in each(checked, Policy))
    for at, listener in each(checked, Listener):
        yield from _names(at, listener)
        if listener.http:
            yield from _unprotected(at, listener)
            if listener.websockets and not policed:
                yield from _open(at, listener)


def _names(at: Checked, listener: Listener) -> Iterator[Mistake]:
    for word in words(listener.allowed_hosts):
        if not is_allowed_host(word):
            text = f"{shown(word)} is not a host name; give names without port, as router.example.com"
            yield at.mistake("allowedHosts", text)
    for word in words(listener.allowed_origins):
        if word != ANY and origin_of(word) is None:
            text = f"{shown(word)} is not an origin; give scheme and host, as https://app.example.com:8443"
            yield at.mistake("allowedOrigins", text)
    for name, given in (("allowedHosts", listener.allowed_hosts), ("allowedOrigins", listener.allowed_origins)):
        if given and not listener.http:
            yield at.mistake(name, "has no effect without http: yes; remove it", warning=True)


def _unprotected(at: Checked, listener: Listener) -> Iterator[Mistake]:
    """Yield mistakes in attributes that restrict access and that HTTP, or HTTP without TLS, does not have."""
    if listener.sasl_plugin and not listener.websockets:
        yield at.mistake("saslPlugin", "does not protect an HTTP listener without websockets; remove it")
    if listener.multi_tenant:
        yield at.mistake("multiTenant", "does not protect an HTTP listener; remove it")
    for name in () if listener.ssl_profile else _NEEDING_TLS:
        if at.value(name):
            yield at.mistake(name, "does not protect an HTTP listener; give it an sslProfile, too, or remove it")


def _open(at: Checked, listener: Listener) -> Iterator[Mistake]:
    """Yield warnings: a listener meant for metrics also serves WebSockets."""
    if listener.authenticate_peer or listener.sasl_plugin:
        return
    otherwise = "set authenticatePeer: yes, or websockets: no if it is for metrics and the page only"
    if ANY in words(listener.allowed_origins):
        text = f"lets every web page use the router without a login; name the pages, {otherwise}"
        yield at.mistake("allowedOrigins", text, warning=True)
    elif not is_loopback(listener.host):
        text = f"serves AMQP over WebSockets to everybody who reaches it, without a login; {otherwise}"
        yield at.mistake("http", text, warning=True)
