"""Where a host is, found out beside the worker's loop, which goes on meanwhile; and connecting to it."""

import ipaddress
import socket
from contextlib import suppress
from typing import Any, Final

from shm.contract.failures import failures, start_thread

Address = tuple[socket.AddressFamily, tuple[str | int, ...] | tuple[int, bytes]]

_FAMILIES: Final = {"": socket.AF_UNSPEC, "IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}


class Lookup:
    """The addresses of one host. ``done`` when ``addresses`` or, if there are none, ``error`` is known.

    A name is asked for in a thread of its own, which may take as long as the name service does; for an
    address nobody has to be asked.
    """

    def __init__(self, host: str, port: str, family: str = "") -> None:
        self._asked = host, port, _FAMILIES[family]
        self.addresses: list[Address] = []
        self.error = ""
        self.done = False
        self._find(socket.AI_NUMERICHOST)
        if not self.addresses:
            self.done, self.error = False, ""
            try:
                start_thread("lookup", self._find)
            except RuntimeError as error:  # the system gives no more threads
                self.done, self.error = True, f"host {host} cannot be looked up: {error}"

    def _find(self, flags: int = 0) -> None:
        host, port, family = self._asked
        try:
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=flags)
            self.addresses = [(entry[0], entry[4]) for entry in found]
        except Exception as error:  # whoever waits has to hear of it
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.error = f"host {host} is not known: {why}"
            if not isinstance(error, OSError | ValueError):
                failures.tell(f"looking up {host}", error, "it is tried again")
        self.done = True


def is_address(host: str) -> bool:
    """Whether that is an IP address, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def begin(family: socket.AddressFamily, address: Any) -> int:
    """A socket that is being connected. Raises OSError where that fails at once."""
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        with suppress(BlockingIOError):
            sock.connect(address)
    except OSError:
        sock.close()
        raise
    return sock.detach()
