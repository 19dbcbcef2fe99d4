"""Warnings about configurations that leave access open, each with the setting that closes it."""

from collections.abc import Iterator

from routerd.config.entities.policy import Policy, Vhost
from routerd.config.entities.transport import Connector, Listener
from routerd.config.formats.source import Mistake
from routerd.config.rules.check import Checked, each
from shm.contract.administering import ALL
from shm.contract.hosts import is_loopback
from workers.control.policy import CONNECTOR_GROUP

PLAIN = {"PLAIN", "LOGIN", "OAUTHBEARER", "XOAUTH2"}  # mechanisms that send the secret itself
NO_LOGIN = {"", "ANONYMOUS"}


def check_doors(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield warnings about access without authentication and secrets in clear text."""
    policed = any(policy.enable_vhost_policy for _, policy in each(checked, Policy))
    for at in checked:
        match at.entity:
            case Listener(protocol="amqp", http=http, websockets=websockets) as listener:
                if websockets or not http:
                    yield from _login(at, listener)
                    yield from _administering(at, listener)
                if policed and not http:
                    yield from _routers(at, listener)
                if not policed:
                    yield from _tenants(at, listener)
            case Connector(protocol="amqp") as connector:
                yield from _sent(at, connector)
            case Vhost() as vhost if policed:
                yield from _groups(at, vhost)


def _must_log_in(listener: Listener) -> bool:
    """Whether every peer must authenticate."""
    return listener.authenticate_peer or listener.sasl_plugin is not None


def _login(at: Checked, listener: Listener) -> Iterator[Mistake]:
    offered = set(listener.mechanisms.split())
    certificate = offered == {"EXTERNAL"} and listener.require_ssl
    if offered - NO_LOGIN and "ANONYMOUS" not in offered and not (_must_log_in(listener) or certificate):
        text = "a client that skips the login is accepted all the same; set authenticatePeer: yes"
        yield at.mistake("saslMechanisms", f"{text}, or add ANONYMOUS if you intend that", warning=True)
    everything = not offered and listener.sasl_plugin is None  # only the service knows its mechanisms
    plain = ["PLAIN"] if everything else sorted(offered & PLAIN)
    secured = listener.ssl_profile is not None and (listener.require_ssl or listener.http)
    if plain and not (secured or listener.require_encryption or is_loopback(listener.host)):
        text = f"{plain[0]} sends passwords in clear text to {_place(listener)}"
        yield at.mistake("saslMechanisms", f"{text}; set requireSsl: yes with an sslProfile", warning=True)


def _administering(at: Checked, listener: Listener) -> Iterator[Mistake]:
    if listener.management == ALL and not (_must_log_in(listener) or is_loopback(listener.host)):
        text = f"all lets everybody who reaches {_place(listener)} change the router without a login"
        yield at.mistake("management", f"{text}; set authenticatePeer: yes, or read", warning=True)


def _routers(at: Checked, listener: Listener) -> Iterator[Mistake]:
    if _must_log_in(listener) or listener.role not in ("inter-router", "edge"):
        return
    inner = listener.role == "inter-router"
    what = "is a router, whom no vhost policy bounds" if inner else "is an edge router"
    text = f"{listener.role} without authenticatePeer: whoever reaches {_place(listener)} {what}"
    yield at.mistake("role", f"{text}; set authenticatePeer: yes", warning=True)


def _tenants(at: Checked, listener: Listener) -> Iterator[Mistake]:
    if not listener.multi_tenant or listener.policy_vhost is not None or is_loopback(listener.host):
        return
    text = f"whoever reaches {_place(listener)} names the vhost it likes, or none, and keeps to no tenant's addresses"
    yield at.mistake("multiTenant", f"{text}; set enableVhostPolicy: yes, or policyVhost", warning=True)


def _sent(at: Checked, connector: Connector) -> Iterator[Mistake]:
    accepted = set(connector.mechanisms.upper().split())
    if connector.sasl_password is None or connector.ssl_profile is not None or is_loopback(connector.host):
        return
    if accepted & PLAIN or not accepted:
        text = f"is sent to whoever answers at {connector.host}, in clear text if the peer offers only PLAIN"
        instead = "give an sslProfile, or set saslMechanisms: SCRAM-SHA-256"
        yield at.mistake("saslPassword", f"{text}; {instead}", warning=True)


def _groups(at: Checked, vhost: Vhost) -> Iterator[Mistake]:
    for name, group in vhost.user_groups.items():
        if group.remote_hosts is None and name != CONNECTOR_GROUP:
            text = f"{name} lets nobody in without remoteHosts; give addresses, or * for any"
            yield at.mistake("groups", text, warning=True)


def _place(listener: Listener) -> str:
    return f"{listener.host or 'any address'}:{listener.port}"
