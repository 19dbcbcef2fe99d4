"""``python -m bench.client MODE``: a load client on the proton engine, without Python per message.

It prints one line of JSON. With ``--step`` it prints ``ready`` when its links are attached, waits for a line
on standard input before it sends, and closes its connections only after another one, so that the runner can
sample the router's processes around the messages alone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from bench.results import ClientResult, Latency
from workers.loop import engine

if TYPE_CHECKING:
    from bench.load import Load

MODES = ("send", "recv", "pingpong", "echo")
READY = "ready"


def load_class() -> type[Load]:
    """Return the native client, after loading the engine that has its undefined symbols."""
    engine.load()
    try:
        from bench.load import Load  # noqa: PLC0415  only now can its symbols be resolved
    except ImportError as error:
        raise click.ClickException(f"bench.load is not usable: {error}; run `make build` first") from error
    return Load


def result_of(mode: str, load: Load) -> ClientResult:
    """Return the figures of a finished run."""
    n = load.messages
    return ClientResult(
        mode=mode,
        n=n,
        bad=load.bad,
        seconds=load.seconds,
        cpu_us_per_message=load.cpu_seconds * 1e6 / n if n else 0.0,
        rate=n / load.seconds if load.seconds else 0.0,
        latency_us=Latency.of(load.latencies),
    )


def drive(mode: str, load: Load, *, step: bool) -> ClientResult:
    """Take the client through its states; see ``load.h``."""
    load.open()
    try:
        if step:
            click.echo(READY)
        if step and mode in ("send", "pingpong"):
            load.hold()
        load.run()
        result = result_of(mode, load)
        click.echo(msgspec.json.encode(result))
        if step:
            load.hold()
    finally:
        load.close()
    return result


@click.command(help=__doc__)
@click.argument("mode", type=click.Choice(MODES))
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=5672, show_default=True)
@click.option("--address", default="bench", show_default=True, help="With several links: ADDRESS.0, ADDRESS.1, …")
@click.option("--count", default=100_000, show_default=True, help="Messages per link.")
@click.option("--size", default=100, show_default=True, help="Bytes of a body; from 8 on it carries a time stamp.")
@click.option("--presettled", is_flag=True)
@click.option("--credit", default=1000, show_default=True, help="A receiver's window in messages.")
@click.option("--links", default=1, show_default=True, help="Connections with one link each (send and recv).")
@click.option("--pause-us", default=0, show_default=True, help="recv: sleep before accepting each message.")
@click.option("--listen", is_flag=True, help="Accept connections instead of making them: no router in between.")
@click.option("--far", default=0, help="pingpong: the receiver's port, at another router of a line.")
@click.option("--tls", is_flag=True, help="Connect with TLS; any certificate of the peer will do.")
@click.option("--step", is_flag=True, help="Print ready, and wait for a line before sending and before closing.")
def main(
    *,
    mode: str,
    host: str,
    port: int,
    address: str,
    count: int,
    size: int,
    presettled: bool,
    credit: int,
    links: int,
    pause_us: int,
    listen: bool,
    far: int,
    tls: bool,
    step: bool,
) -> None:
    """Run the client; the exit status is 1 if anything was lost or refused."""
    try:
        load = load_class()(
            mode,
            host,
            port,
            address,
            count=count,
            size=size,
            presettled=presettled,
            credit=credit,
            links=links,
            pause_us=pause_us,
            listen=listen,
            far=far,
            tls=tls,
        )
        result = drive(mode, load, step=step)
    except (ConnectionError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    expected = 0 if presettled else count * links
    sys.exit(1 if result.bad or result.n < expected else 0)


if __name__ == "__main__":
    main()
