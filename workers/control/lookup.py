"""Host name lookups that do not block the worker's loop, and the start of connections."""

import ipaddress
import socket
from contextlib import suppress
from typing import Any, Final

from shm.contract.failures import NO_THREAD, failures, start_thread
from shm.contract.text import cause

Address = tuple[socket.AddressFamily, tuple[str | int, ...] | tuple[int, bytes]]

POLL_SECONDS: Final = 0.02  # interval of polls for the result of a lookup

_FAMILIES: Final = {"": socket.AF_UNSPEC, "IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}

_NO_SUCH_NAME: Final = {
    getattr(socket, name, socket.EAI_NONAME) for name in ("EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY")
}


class Lookup:
    """The lookup of one host; once it is ``done`` it has ``addresses`` or, if there are none, an ``error``.

    It is ``answered`` once the name service has said something: that there is no such host, too; no name service need
    be asked about what is no name.
    A thread of its own looks up a name and may take as long as the name service. An IP address needs none.
    """

    def __init__(self, host: str, port: str, family: str = "") -> None:
        self._asked = host, port, _FAMILIES[family]
        self.addresses: list[Address] = []
        self.error = ""
        self.done = self.answered = False
        self._find(socket.AI_NUMERICHOST)
        if not self.addresses:
            self.done, self.answered, self.error = False, False, ""
            if start_thread("lookup", self._find) is None:
                self.done, self.error = True, f"host {host} cannot be looked up: there is no thread for it; {NO_THREAD}"

    def _find(self, flags: int = 0) -> None:
        host, port, family = self._asked
        try:
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=flags)
            self.addresses = [(entry[0], entry[4]) for entry in found]
            self.answered = True
        except Exception as error:  # the caller waits for a result
            why = cause(error)
            self.error = f"host {host} is not known: {why}"
            self.answered = isinstance(error, UnicodeError) or _says_no(error)
            if not isinstance(error, OSError | ValueError):
                failures.tell(f"looking up {host}", error, "it is tried again")
        self.done = True


def _says_no(error: Exception) -> bool:
    """Whether the name service knows of no address; any other failure says nothing about the name."""
    return isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_NAME


def is_address(host: str) -> bool:
    """Return whether a host is an IP address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def begin(addresses: list[Address]) -> int:
    """Return the descriptor of a socket that is connecting to the first address to which it can, of one at least.

    Those that it has tried are removed. Raises OSError if it can connect to none.
    """
    while True:
        try:
            return _begin(*addresses.pop(0))
        except OSError:
            if not addresses:
                raise


def _begin(family: socket.AddressFamily, address: Any) -> int:
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with suppress(BlockingIOError):
            sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock.detach()
