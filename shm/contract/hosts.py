"""Hosts of peers: the host in ``host:port``, and its IP address."""

import ipaddress
import socket
from typing import Final

MAPPED: Final = "::ffff:"  # the beginning of an IPv4 address among IPv6 ones (RFC 5952 section 5)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def machine_name() -> str:
    """Return this machine's name, with a question mark for each octet that is not UTF-8."""
    return socket.gethostname().encode("utf-8", "replace").decode()


def host_of(place: str) -> str:
    """Return the host in ``host:port``; an IPv6 address loses its brackets.

    An IPv4 peer is an IPv4 address, though a socket for both families, such as systemd's, calls it an IPv6 one.
    """
    host = place.rpartition(":")[0].strip("[]")
    return host.removeprefix(MAPPED) if "." in host else host


def address_of(host: str) -> Address | None:
    """Return the IP address that a host is, unmapped if it is an IPv4-mapped IPv6 one; None for a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address, which only peers on this machine have."""
    address = address_of(host)
    return host == "localhost" if address is None else address.is_loopback
