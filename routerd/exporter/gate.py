"""Decides whether an HTTP listener answers, by the host that a request names and the page it comes from.

A browser reaches listeners on localhost even for a page from elsewhere. Two headers that no page can forge
reveal this: Host is the name in the address bar, also of a page that rebinds its name to this machine (DNS
rebinding); Origin names the page that asks for a WebSocket (RFC 6455, 10.2).
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from email.message import Message
from http import HTTPStatus
from typing import Final

from shm.contract.hosts import machine_name
from shm.contract.text import printable

ANY: Final = "*"
_NAME: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})"
_PLACE: Final = rf"(\[[0-9A-Fa-f:.]{{2,45}}\]|{_NAME})(?::([0-9]{{1,5}}))?"
_HOST: Final = re.compile(_PLACE)
_ORIGIN: Final = re.compile(rf"([A-Za-z][A-Za-z0-9+.-]{{0,31}})://{_PLACE}")
_ALLOWED_HOST: Final = re.compile(rf"\*|(?:\*\.)?{_NAME}|\[?[0-9A-Fa-f:.]{{2,45}}\]?")
_PORTS: Final = {"http": "80", "https": "443"}
_SHOWN: Final = 80  # characters of a header shown in a log line

Origin = tuple[str, str, str]  # scheme, host, port


class ShutError(Exception):
    """A request is refused; it has an HTTP status, a counter and a reason."""

    def __init__(self, status: HTTPStatus, counter: str, text: str) -> None:
        super().__init__(text)
        self.status, self.counter = status, counter


def host_of(text: str) -> tuple[str, str] | None:
    """Return the host, in lower case and without brackets, and port of a Host header; None if it is bad."""
    found = _HOST.fullmatch(text)
    return (_plain(found[1]), found[2] or "") if found else None


def origin_of(text: str) -> Origin | None:
    """Return the parts of an Origin, with its scheme's default port; None if it names no host."""
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return None
    scheme = found[1].lower()
    return scheme, _plain(found[2]), found[3] or _PORTS.get(scheme, "")


def is_allowed_host(text: str) -> bool:
    """Whether a word of `allowedHosts` is a host name or a pattern of some."""
    return _ALLOWED_HOST.fullmatch(text) is not None


def own_names() -> set[str]:
    """Return this machine's names."""
    name = _plain(machine_name())
    return {"localhost", name, name.partition(".")[0]}


class Gate:
    """The rules of one HTTP listener."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        names = {_plain(host) for host in hosts}
        self._any_host = ANY in names
        self._below = tuple(name[1:] for name in names if name.startswith("*."))
        self._hosts = names | own_names()
        given = set(origins)
        self._any_origin = ANY in given
        self._origins = {origin_of(one) for one in given} - {None}

    def host(self, headers: "Message[str, str]", path: str, version: str) -> tuple[str, str]:
        """Return the host and port that a request names. Raises ShutError.

        A client without Host is not a browser, but HTTP/1.1 requires the header (RFC 9112, 3.2).
        """
        said = headers.get_all("Host", [])
        target = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)", path)
        found = ("", "")
        if said or version not in ("HTTP/0.9", "HTTP/1.0"):
            found = self._known(said)
        return self._known([target[1]]) if target is not None else found

    def page(self, headers: "Message[str, str]", host: tuple[str, str], secured: bool) -> None:
        """Refuse a WebSocket for a page of another origin. Raises ShutError."""
        said = headers.get_all("Origin", [])
        if not said or (self._any_origin and len(said) == 1):
            return
        origin = origin_of(said[0]) if len(said) == 1 else None
        scheme = "https" if secured else "http"
        if origin is not None and (origin in self._origins or origin == (scheme, host[0], host[1] or _PORTS[scheme])):
            return
        what = f"pages of {printable(repr(', '.join(said)), _SHOWN)} may not open WebSockets here"
        how = "add that origin to allowedOrigins of the listener if they should"
        raise ShutError(HTTPStatus.FORBIDDEN, "origin", f"{what}; {how}")

    def _known(self, said: Sequence[str]) -> tuple[str, str]:
        found = host_of(said[0]) if len(said) == 1 else None
        if found is None:
            hosts = printable(repr(", ".join(said)), _SHOWN)
            what = f"Host must name one host, and is {hosts}" if said else "Host is missing"
            raise ShutError(HTTPStatus.BAD_REQUEST, "host", what)
        host = found[0]
        if self._any_host or host in self._hosts or _is_address(host) or host.endswith(self._below):
            return found
        what = f"nothing is served here under the name {printable(repr(host), _SHOWN)}"
        how = "add it to allowedHosts of the listener, or ask by the address"
        raise ShutError(HTTPStatus.MISDIRECTED_REQUEST, "host", f"{what}; {how}")


def _plain(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
