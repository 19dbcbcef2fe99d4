"""A peer of a command, in this process: it listens for one connection, and ends with it."""

import threading
from typing import Any

from click.testing import CliRunner
from proton.handlers import MessagingHandler
from proton.reactor import Container

from routerd.__main__ import main
from tests.support.running import LONG, free_port


class CommandPeer(MessagingHandler):
    """What it does with links and messages is its subclass's."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.port = free_port()
        self.listening = threading.Event()

    def on_start(self, event: Any) -> None:
        self.acceptor = event.container.listen(f"127.0.0.1:{self.port}")
        self.listening.set()

    def on_transport_closed(self, event: Any) -> None:
        self.acceptor.close()
        event.container.stop()


def told(peer: CommandPeer, *command: str, typed: bytes = b"") -> tuple[str, list[str]]:
    """Return the output of a command at a peer, and its other lines; ``typed`` is its standard input."""
    thread = threading.Thread(target=Container(peer).run, daemon=True)
    thread.start()
    assert peer.listening.wait(LONG)
    done = CliRunner().invoke(main, [*command, "--bus", f"amqp://127.0.0.1:{peer.port}"], input=typed)
    thread.join(LONG)
    return done.stdout, done.stderr.splitlines()
