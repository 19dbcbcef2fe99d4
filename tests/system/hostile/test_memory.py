"""What a crowd of links, addresses, copies and connections has taken goes back to the system after it."""

import socket
import ssl
from contextlib import ExitStack

import pytest

from tests.support.clients.frame_client import FrameClient
from tests.support.clients.octets import ATTACH
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import MIB
from tests.support.running import LONG, RunningRouter, roles, until

LINKS = 10_000  # more than tables keep memory for; they take 25 MiB of a worker, and 10 to 15 of the core
AT_ONCE = 500
HANDSHAKES = 400  # with TLS; they take 12 MiB of each worker
LEFT = {"core": 8 * MIB, "worker 0": 4 * MIB, "worker 1": 4 * MIB}


def memory(router: RunningRouter) -> dict[str, int]:
    """Octets that workers and core share with nobody."""
    processes = roles(router.process.pid)
    return {role: processes[role].memory_full_info().uss for role in LEFT}


@pytest.mark.parametrize("addresses", [50, LINKS])
def test_memory_of_links_goes_back(router: RunningRouter, addresses: int) -> None:
    """Links to few addresses, or to as many."""
    before = memory(router)
    with FrameClient(router.address) as client:
        client.begin()
        for first in range(0, LINKS, AT_ONCE):
            numbers = range(first, first + AT_ONCE)
            client.write(*(client.attaching(f"crowd.{n % addresses}", n, bool(n & 1)) for n in numbers))
            for _ in numbers:
                client.expect(ATTACH, 0)
                client.passed.clear()
        full = memory(router)
    assert sum(full.values()) - sum(before.values()) > 30 * MIB

    def gone_back() -> bool:
        now = memory(router)
        return all(now[role] < before[role] + left for role, left in LEFT.items())

    until(gone_back, "return of memory", LONG)


def test_memory_of_handshakes_goes_back(attacked: RunningRouter, target: Target) -> None:
    """TLS has some 60 KiB for each, in pieces among those of others."""
    before, out = memory(attacked), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        target.trusting.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    hello = out.read()
    with ExitStack() as stack:
        for _ in range(HANDSHAKES):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", target.tls)))
            client.sendall(hello)
            assert client.recv(1)
        assert sum(memory(attacked).values()) - sum(before.values()) > 15 * MIB

    def gone_back() -> bool:
        now = memory(attacked)
        return all(now[role] < before[role] + left for role, left in LEFT.items())

    until(gone_back, "return of memory", LONG)
