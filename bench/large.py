"""What a large message costs its sender, an unmodified client of python-qpid-proton.

    python -m bench.large PORT ADDRESS SIZE

is that sender. Its engine holds what the router does not take at once, and moves the rest of the message in memory each
time the router takes more. So the smaller the router's session window, the faster the cost grows with the message.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import click
import msgspec
from proton import Message, ProtonException
from proton.utils import BlockingConnection

from bench.client import READY
from bench.clients import LIMIT_S, ClientSpec, transfer
from bench.results import ClientResult, Run
from bench.targets import BenchError, Running


@dataclass(frozen=True, kw_only=True)
class Large:
    """One message of ``size`` bytes, and a smaller one before it, each by a sender of its own."""

    size: int
    smaller: int

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. The receiver is always the hand-made one; sizes are never scaled."""
        if running.process is None:
            raise BenchError("the target is not a router")
        smaller, larger = (self._send(running, size) for size in (self.smaller, self.size))
        return figures(smaller, larger)

    def _send(self, running: Running, size: int) -> Run:
        receiver = ClientSpec(mode="recv", port=running.port, address="bench.large", count=1, size=size)
        sender = msgspec.structs.replace(receiver, mode="send")
        return transfer(running, [receiver], [sender], kind="wire", sending="python")


def figures(smaller: Run, larger: Run) -> Run:
    """Return the run with the larger message, and how many times the smaller one's CPU its sender has used."""
    if not smaller.senders_cpu or not larger.senders_cpu:
        raise BenchError("the senders used no CPU time")
    extra = {
        "large_s": larger.senders_s or 0.0,
        "sender_cpu_s": larger.senders_cpu / 1e6,
        "sender_growth": larger.senders_cpu / smaller.senders_cpu,
    }
    return msgspec.structs.replace(larger, extra={**larger.extra, **extra})


def send(port: int, address: str, size: int) -> None:
    """Take the sender through the states of a load client; see `bench.client`."""
    connection = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=LIMIT_S, allowed_mechs="ANONYMOUS")
    sender = connection.create_sender(address)
    message = Message(body=bytes(size))  # zeros: no time stamp
    click.echo(READY)
    sys.stdin.readline()
    began, used = time.perf_counter(), time.process_time()
    sender.send(message)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    result = ClientResult(
        mode="send", n=1, bad=0, seconds=seconds, cpu_us_per_message=used * 1e6, rate=1 / seconds, latency_us=None
    )
    click.echo(msgspec.json.encode(result))
    sys.stdin.readline()
    connection.close()


@click.command(help=__doc__)
@click.argument("port", type=int)
@click.argument("address")
@click.argument("size", type=int)
def main(*, port: int, address: str, size: int) -> None:
    """Run the sender; the exit status is 1 if the message was not accepted."""
    try:
        send(port, address, size)
    except (ProtonException, OSError) as error:
        raise click.ClickException(str(error) or type(error).__name__) from error


if __name__ == "__main__":
    main()
