"""Hosts of peers: the host in ``host:port``, and the address that it is."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def host_of(place: str) -> str:
    """The host in ``host:port``, and an IPv6 address without its brackets."""
    return place.rpartition(":")[0].strip("[]")


def address_of(host: str) -> Address | None:
    """The address that a host is, the IPv4 one where an IPv6 socket shows it mapped; None: it is a name."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def is_loopback(host: str) -> bool:
    """Whether a host is an address of this machine's own, that nobody else can come from."""
    address = address_of(host)
    return host == "localhost" if address is None else address.is_loopback
