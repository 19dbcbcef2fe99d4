"""Hosts of peers, as all parts of the router read them."""

import pytest

from shm.contract.hosts import address_of, host_of, is_loopback


@pytest.mark.parametrize(
    ("place", "host", "address", "loopback"),
    [
        ("1.2.3.4:5", "1.2.3.4", "1.2.3.4", False),
        ("127.0.0.9:5", "127.0.0.9", "127.0.0.9", True),
        ("[::1]:5", "::1", "::1", True),
        ("[::ffff:127.0.0.1]:5", "127.0.0.1", "127.0.0.1", True),
        ("[::ffff:10.0.0.1]:5", "10.0.0.1", "10.0.0.1", False),
        ("[::ffff:a00:1]:5", "::ffff:a00:1", "10.0.0.1", False),
        ("[fe80::1%eth0]:5", "fe80::1%eth0", "fe80::1", False),
        ("localhost:5", "localhost", "None", True),
        ("localhost.example:5", "localhost.example", "None", False),
        ("-", "", "None", False),
    ],
)
def test_a_host_is_read_alike_everywhere(place: str, host: str, address: str, loopback: bool) -> None:
    """Brackets, zones, and IPv4 addresses that a socket for both families shows mapped."""
    assert host_of(place) == host
    assert str(address_of(host)) == address
    assert is_loopback(host) == loopback
