"""Clients that connect, say half of what they have to, and wait: what ends them, and after how long.

Nobody else notices them; docs/reliability.md has the table.
"""

import select
import socket
import ssl
import time
from contextlib import ExitStack, suppress

from tests.model.ockam_framing import TODAY
from tests.support.clients import rmr_frames
from tests.support.clients.frame_client import WINDOW, FrameClient
from tests.support.clients.octets import AMQP_HEADER, BEGIN, DETACH, OPEN, said
from tests.support.hostile.target import PATIENCE, Target
from tests.support.hostile.verdict import Verdict
from tests.support.running import RunningRouter

CLIENTS = 50  # of each kind
DEAF = 4  # of each kind, and as many with TLS: what waits for them is up to some MB each
QUIET = 2.0  # seconds in which the router takes nothing more of them
LAST_WORD = 10  # seconds that a CLOSE waits for a socket
SLACK = 6.0  # seconds that a busy machine may take longer
IDLE_SECONDS = 16  # idleTimeoutSeconds by default
HEAD_SECONDS = 5.0  # that the exporter gives the head of a request
WINDOWS = {"in_window": WINDOW, "out_window": WINDOW}
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
UPGRADE = (
    REQUEST + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: amqp\r\n\r\n"
)
HALVES: dict[str, tuple[str, bytes, float]] = {  # where, what is said, seconds until it ends
    "amqp, nothing": ("amqp", b"", PATIENCE),
    "amqp, half an OPEN": ("amqp", AMQP_HEADER + said(OPEN, container="slow")[:9], PATIENCE),
    "amqp, half a frame": ("amqp", AMQP_HEADER + said(OPEN, container="slow") + b"\0\0\1\0\2", 2 * PATIENCE),
    "tls, nothing": ("tls", b"", PATIENCE),
    "tls, half a hello": ("tls", bytes.fromhex("16030100520100004e0303"), PATIENCE),
    "http, nothing": ("http", b"", HEAD_SECONDS),
    "http, half a head": ("http", REQUEST, HEAD_SECONDS),
}
# These protocols have no sign of life: an application may say nothing for days.
FOR_EVER: dict[str, tuple[str, bytes]] = {
    "rmr, nothing": ("rmr", b""),
    "rmr, half a frame": ("rmr", rmr_frames.encode(rmr_frames.Frame(1004, b"x" * 5_000))[:3_000]),
    "rmr, the length of a long frame": ("rmr", (1 << 19).to_bytes(4, "little")),
    "ockam, nothing": ("ockam", TODAY.preamble),
    "ockam, half a frame": ("ockam", TODAY.preamble + (100_000).to_bytes(4, "big") + b"\x84"),
}


def crowd(target: Target, where: str, says: bytes, until: ExitStack) -> list[socket.socket]:
    """Clients that say that and wait."""
    clients = []
    for _ in range(CLIENTS):
        client = socket.create_connection(("127.0.0.1", getattr(target, where)), timeout=30)
        clients.append(until.enter_context(client))
        client.sendall(says)
    return clients


def ended(client: socket.socket) -> bool:
    """Whether the router has closed it, after all that it said."""
    try:
        while client.recv(65_536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return True


def test_who_waits_is_sent_away(attacked: RunningRouter, target: Target) -> None:
    """All kinds at once, each after its time."""
    with ExitStack() as clients, Verdict(attacked):
        began = time.monotonic()
        crowds = {kind: crowd(target, where, says, clients) for kind, (where, says, _) in HALVES.items()}
        for kind, (_, _, seconds) in sorted(HALVES.items(), key=lambda half: half[1][2]):
            for client in crowds[kind]:
                client.settimeout(max(0.1, began + seconds + SLACK - time.monotonic()))
                assert ended(client), f"{kind}: not within {seconds:g} s"


def shout(clients: list[socket.socket], octets: bytes) -> None:
    """Each writes the same again and again, as long as the router reads it."""
    left = dict.fromkeys(clients, b"")
    for client in clients:
        client.setblocking(False)
    while writable := select.select([], clients, [], QUIET)[1]:
        for client in writable:
            left[client] = left[client] or octets
            with suppress(ssl.SSLWantWriteError):
                left[client] = left[client][client.send(left[client]) :]


def test_who_reads_nothing_is_sent_away(attacked: RunningRouter, target: Target) -> None:
    """The router reads no more of such clients, and its CLOSE finds no room in their sockets either."""
    with ExitStack() as clients, Verdict(attacked):
        deaf = []
        for where in ["amqp", "tls"] * DEAF:
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", getattr(target, where)))
            deaf.append(clients.enter_context(target.trusting.wrap_socket(client) if where == "tls" else client))
            deaf[-1].sendall(AMQP_HEADER + said(OPEN, container="deaf") + said(BEGIN, 0, next_out=0, **WINDOWS))
        name = "n" * 12_000
        with FrameClient(("127.0.0.1", target.amqp)) as plain:
            links = plain.attaching("deaf", 0, True, name=name) + said(DETACH, handle=0, closed=True)
        shout(deaf, links * 4)
        time.sleep(2 * PATIENCE + LAST_WORD + SLACK)
        for client in deaf:
            client.settimeout(1)
            assert ended(client)


def test_half_a_web_frame_is_sent_away(attacked: RunningRouter, target: Target) -> None:
    """Behind a granted WebSocket the times of AMQP count, and that listener has others."""
    with ExitStack() as clients, Verdict(attacked):
        web = crowd(target, "http", UPGRADE, clients)
        for client in web:
            assert client.recv(65_536).startswith(b"HTTP/1.1 101 ")
            client.sendall(b"\x82\xfe\1")
        for client in web:
            client.settimeout(IDLE_SECONDS + SLACK)
            assert ended(client)


def test_who_may_be_silent_takes_nothing_from_others(attacked: RunningRouter, target: Target) -> None:
    """RMR and Ockam: no time ends such a connection, and what it has said of a frame stays small."""
    with ExitStack() as clients, Verdict(attacked):
        crowds = [crowd(target, where, says, clients) for where, says in FOR_EVER.values()]
        time.sleep(1)
        for client in (one for some in crowds for one in some):
            client.settimeout(0.001)
            assert not ended(client)
        clients.close()
