"""A peer behind TLS that makes the router write, names no max-frame-size, and never reads."""

import select
import socket
import ssl
import time

from tests.support.clients.frame_client import WINDOW, FrameClient
from tests.support.clients.octets import AMQP_HEADER, BEGIN, DETACH, OPEN, said
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import MIB, Verdict
from tests.support.running import RunningRouter

PATIENCE = 2.0  # seconds without progress after which the router does not read
ENOUGH = 60 * MIB  # octets that no router reads whose answers nobody takes
READ = 20 * MIB  # and those that one may: bounds of the router's and of the kernel's buffers


def test_answers_wait_within_bounds(attacked: RunningRouter, target: Target) -> None:
    """The router reads no more of it."""
    with Verdict(attacked):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", target.tls))
        with target.trusting.wrap_socket(raw) as sock:
            with FrameClient(("127.0.0.1", target.amqp)) as plain:
                attach = plain.attaching("deaf", 0, True, name="n" * 12_000)
            octets = (attach + said(DETACH, handle=0, closed=True)) * 4
            sock.sendall(AMQP_HEADER + said(OPEN, container="deaf"))
            sock.sendall(said(BEGIN, 0, next_out=0, in_window=WINDOW, out_window=WINDOW))
            sock.setblocking(False)
            written, last = 0, time.monotonic()
            while time.monotonic() - last < PATIENCE and written < ENOUGH:
                try:
                    sock.send(octets)
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    select.select([], [sock], [], 0.1)
                    continue
                written, last = written + len(octets), time.monotonic()
            assert written < READ
