"""How commands connect to a running router, and the advice they give when they cannot."""

import re
import socket
from pathlib import Path
from typing import Any

import click
import cproton_ffi  # type: ignore[import-not-found]  # it has no types
from cproton import pn_ssl_domain_set_protocols  # type: ignore[import-untyped]  # the same
from proton import ProtonException, SSLDomain, Timeout, Url
from proton.utils import BlockingConnection

from routerd.cli.cli_options import Place, without_user
from shm.contract.peer_address import watch_peers
from shm.contract.security import MODERN_TLS
from shm.contract.text import printable

__all__ = ["ClientError", "Place", "connect", "lost", "security", "unreachable", "words"]

UNVERIFIED = "certificate verify failed"
_CONDITION = re.compile(r"""Condition\('([^']*)', ['"](.*)['"]\)""")

FULL = ("amqp:resource-limit-exceeded", "the router's policy lets nobody in from here, or no more")
# A part of Proton's error text and the advice that goes with it; the first that occurs in the text counts.
ADVICE = (
    ("refused to all addresses", "is the router running? Start it, or give its address with --bus"),
    ("not known", "give the name or address of the router's host with --bus"),
    ("certificate has expired", "a certificate of the router, or of its authority, has expired: renew it there; the "
     "router uses a changed file at once"),
    ("not yet valid", "a certificate of the router is not valid yet: compare the clocks of both machines"),
    ("certificate expired", "the certificate given with --ssl-certificate has expired: give one that is valid"),
    (UNVERIFIED, "give the authority of the router's certificate with --ssl-trustfile, and "
     "with --bus a host name or address that stands in the certificate"),
    ("certificate required", "the router wants a certificate: give --ssl-certificate and --ssl-key"),
    ("handshake failure", "the router wants a certificate: give --ssl-certificate and --ssl-key"),
    ("unknown ca", "the router does not trust the certificate given with --ssl-certificate"),
    ("SSL Failure", "is TLS spoken at that port? If not give amqp:// instead of amqps://"),
    ("protocol header", "is that the port of a listener for AMQP? Give amqps:// where it wants TLS"),
    ("reset by peer", "is that the port of a listener for AMQP? Give amqps:// where it wants TLS"),
    ("no mechanism available", "give a user with --sasl-username, and --sasl-password-file"),
    ("[mech=none]", "no mechanism is left: give --sasl-username and --sasl-password-file, amqps:// where the "
     "router wants TLS, or other --sasl-mechanisms"),
    ("Authentication failed", "the user, or the password, is not the right one"),
    ("amqp:unauthorized-access", "this user may not manage the router; its policy says who may"),
    FULL,
)  # fmt: skip


class ClientError(click.ClickException):
    """A request failed; the text, of which peers may have said a part, says why and what to do, in one line."""

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


def connect(place: Place) -> BlockingConnection:
    """Return an open connection to the router. Raises ClientError."""
    options = security(place)
    try:
        return BlockingConnection(place.url, timeout=place.timeout, **options)
    except (ProtonException, OSError) as error:
        raise unreachable(place, error) from error


def security(place: Place) -> dict[str, Any]:
    """Return how Proton is to log in, as the arguments of `BlockingConnection`. Raises ClientError."""
    return {
        "ssl_domain": _domain(place), "allowed_mechs": place.mechanisms, "user": place.user,
        "password": _password(place),
    }  # fmt: skip


def unreachable(place: Place, error: Exception) -> ClientError:
    """Return the error that says why the agent cannot be reached and what to do."""
    if isinstance(error, Timeout):
        text = f"no answer within {place.timeout:g} s"
        advice = "is that the address of a router? Give it with --bus, or more time with --timeout"
    else:
        text = words(error)
        if UNVERIFIED in text and (why := _unverified(place)):
            text = f"{text}: {why}"
        advice = next((advice for sign, advice in ADVICE if sign in text), ADVICE[0][1])
    return ClientError(f"cannot reach the router at {place.shown} ({text}); {advice}")


def lost(place: Place, error: Exception, advice: str | None = None) -> ClientError:
    """Return the error that says why an open connection has ended and what to do, of its own or ``advice``."""
    text = words(error)  # a router opens a connection before its policy counts it
    advice = advice or (FULL[1] if FULL[0] in text else "try again")
    return ClientError(f"the connection to {place.shown} is lost ({text}); {advice}")


def _unverified(place: Place) -> str:
    """Return why the router's certificate is refused, which the engine does not tell; empty if that is not known.

    It takes another connection, whose handshake ends as the first one's did.
    """
    import ssl  # noqa: PLC0415 - large, and needed only here

    url = Url(place.url)  # type: ignore[no-untyped-call]  # Proton has no types here
    try:
        context = ssl.create_default_context(cafile=place.trustfile)
        with socket.create_connection((url.host, int(url.port)), place.timeout) as plain:
            context.wrap_socket(plain, server_hostname=url.host).close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, ValueError):
        pass
    return ""


def words(error: BaseException) -> str:
    """Return an error's text in one line, without the user and password of a URL in it."""
    text = " ".join(str(error).split()) or type(error).__name__
    found = _CONDITION.search(text)
    return f"{found[1]}: {found[2]}" if found else without_user(text)


def _domain(place: Place) -> SSLDomain | None:
    """Return the TLS settings of a client; None without certificates. Raises ClientError for a bad file."""
    if not (place.trustfile or place.certificate):
        return None
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    pn_ssl_domain_set_protocols(domain._domain, MODERN_TLS)  # SSLDomain has no method for this
    try:
        if place.certificate:
            _readable("--ssl-certificate", place.certificate)
            _readable("--ssl-key", place.key or place.certificate)
            domain.set_credentials(place.certificate, place.key or place.certificate, None)
        if place.trustfile:
            _readable("--ssl-trustfile", place.trustfile)
            domain.set_trusted_ca_db(place.trustfile)
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME, place.trustfile)
            watch_peers(int(cproton_ffi.ffi.cast("uintptr_t", domain._domain)))
    except ProtonException as error:
        raise ClientError(
            "the files of --ssl-trustfile, --ssl-certificate and --ssl-key cannot be used: are they PEM, and "
            "does the key belong to the certificate?"
        ) from error
    return domain


def _password(place: Place) -> str | None:
    """Return the first line of the password file. Raises ClientError."""
    if place.password_file is None:
        return None
    return _readable("--sasl-password-file", place.password_file).partition("\n")[0].rstrip("\r")


def _readable(option: str, file: str) -> str:
    """Return the text of a file. Raises ClientError."""
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ClientError(f"{option}: {file} cannot be read ({error.strerror})") from error
