"""The router's OPEN, and what follows from the peer's OPEN (AMQP 1.0 part 2.7.1): pure functions."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.payloads import ConnectionOpened
from workers.control.guard import Passed
from workers.control.neighbours import AmqpError

PRODUCT: Final = "routerd"
# The router accepts senders without a target address, and streams over links with this capability.
CAPABILITIES: Final = ["ANONYMOUS-RELAY", "qd.streaming-links"]
ANNOTATIONS_VERSION: Final = 1  # of the router-annotations section
NO_DESCRIPTORS: Final = (
    "listener %s: cannot accept connections: out of file descriptors or memory; raise LimitNOFILE "
    "(ulimit -n) or lower the number of clients"
)
ACCEPTING: Final = "connections are accepted again: there are file descriptors and memory"
SILENT: Final = "local-idle-timeout expired"  # the engine's description
OF_ROUTERS: Final = ("inter-router", "edge")

# Forms of router annotations: content.h, enum content_annotations.
NONE, MAP, SECTION, SKUPPER = range(4)
_FORMS: Final = {"none": NONE, "map": MAP, "section": SECTION, "skupper": SKUPPER}
_FORM_OF_PRODUCT: Final = {PRODUCT: SECTION, "skupper-router": SKUPPER}

Terms = ListenerSetup | ConnectorSetup


class Form(msgspec.Struct, frozen=True):
    """The form in which messages of a connection carry router annotations.

    With ``strip_in`` the router ignores and removes those of received messages; with ``strip_out`` it sends
    messages without any.
    """

    form: int = NONE
    strip_in: bool = True
    strip_out: bool = True


def form_of(terms: Terms, properties: Mapping[str, Any]) -> Form:
    """Return the form of router annotations for a connection, given the ``properties`` of the peer's OPEN."""
    routers = terms.role in OF_ROUTERS
    forced = _FORMS.get(terms.annotations)
    strip = "no" if routers else terms.strip_annotations
    strip_in, strip_out = strip in ("in", "both"), strip in ("out", "both")
    if forced is not None:
        return Form(forced, strip_in, strip_out)
    if not routers:
        return Form(NONE if strip == "both" else MAP, strip_in, strip_out)
    form = _FORM_OF_PRODUCT.get(str(properties.get("product", "")), MAP)
    if form == SECTION and _whole(properties.get("qd.annotations-version")) < ANNOTATIONS_VERSION:
        form = MAP
    return Form(form, strip_in, strip_out)


def open_properties(terms: Terms, version: str, number: int) -> dict[str, Any]:
    """Return the properties of the router's OPEN on connection ``number``."""
    properties: dict[str, Any] = {"product": PRODUCT, "version": version, "qd.conn-id": number}
    if terms.role == "inter-router" and terms.cost > 1:
        properties["qd.inter-router-cost"] = terms.cost
    if terms.role in OF_ROUTERS:
        properties["qd.annotations-version"] = ANNOTATIONS_VERSION
    else:
        properties |= terms.open_properties
    if isinstance(terms, ListenerSetup) and terms.failover:
        properties["failover-server-list"] = terms.failover
    return properties


def described(opened: ConnectionOpened) -> str:
    """Return the description of a connection for its connector's state, in qpid-dispatch's words."""
    said = {"host": opened.host, "container_id": opened.container, "auth": opened.sasl or "no"}
    if opened.user:
        said["user"] = opened.user
    said["encrypted"] = opened.tls_protocol or "no"
    return " ".join(f"{name}={value}" for name, value in said.items())


def introduced(opened: ConnectionOpened, terms: Terms) -> str:
    """Return what the log says of a connection behind its container: who has logged in, how, by which door."""
    words = [f", user {opened.login!r}"] if opened.login else []
    words += [f", {opened.tls_protocol}"] if opened.tls_protocol else []
    words += [f", role {opened.role}"] if opened.role != "normal" else []
    words += [f", listener {terms.shown}"] if isinstance(terms, ListenerSetup) else []
    return "".join(words)


def plainly(error: AmqpError | None) -> AmqpError | None:
    """Return why a connection has ended, with what the engine's words for a silent peer mean."""
    if error is not None and error[1] == SILENT:
        return error[0], f"{SILENT}: its peer has sent nothing for idleTimeoutSeconds"
    return error


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value < 2**31 else 0


def tenant_of(terms: Terms, hostname: str, passed: Passed) -> str:
    """Return the tenant of a client of a multi-tenant listener, which is its vhost; empty for others."""
    if isinstance(terms, ConnectorSetup) or not terms.multi_tenant:
        return ""
    vhost = passed.admission.vhost if passed.admission else ""
    return vhost or terms.policy_vhost or hostname
