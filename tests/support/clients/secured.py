"""Clients that come with certificates and passwords, by the engine's own reactor."""

import re
from dataclasses import dataclass
from typing import Any

from proton import Message, SSLDomain
from proton.handlers import MessagingHandler
from proton.reactor import Container

from tests.support.running import LONG


@dataclass(frozen=True)
class Credentials:
    """How a client protects itself and who it says it is."""

    authority: str = ""  # whom it trusts; TLS only with one
    certificate: str = ""
    key: str = ""
    user: str | None = None
    password: str | None = None
    mechanisms: str | None = None
    vhost: str | None = None
    sasl: bool = True


@dataclass
class Outcome:
    """What became of a connection: errors are (condition, description)."""

    opened: bool = False
    error: str = ""
    description: str = ""
    dispositions: tuple[str, ...] = ()
    link_errors: tuple[str, ...] = ()
    max_frame: int = 0
    channel_max: int = 0
    cipher: str | None = None


class Client(MessagingHandler):
    """Opens a connection, attaches links, sends a message on each sender, and ends when all is decided."""

    def __init__(
        self, url: str, credentials: Credentials, links: list[tuple[str, str | None]], message: Message, sends: bool
    ) -> None:
        super().__init__(prefetch=0)
        self.url = url.replace("amqps://", "amqp://").removeprefix("amqp://")
        self.credentials, self.links, self.message, self.sends = credentials, links, message, sends
        self.outcome = Outcome()
        self.decided = 0

    def on_start(self, event: Any) -> None:
        it = self.credentials
        domain = None
        if it.authority:
            domain = SSLDomain(SSLDomain.MODE_CLIENT)
            domain.set_trusted_ca_db(it.authority)
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
            if it.certificate:
                domain.set_credentials(it.certificate, it.key, None)
        self.timeout = event.container.schedule(LONG, self)
        self.connection = event.container.connect(
            ("amqps://" if domain else "amqp://") + self.url,
            ssl_domain=domain,
            user=it.user,
            password=it.password,
            allowed_mechs=it.mechanisms,
            virtual_host=it.vhost,
            sasl_enabled=it.sasl,
            allow_insecure_mechs=True,
            reconnect=False,
        )

    def on_timer_task(self, _: Any) -> None:
        self.outcome.error = self.outcome.error or "nothing was decided in time"
        self.connection.close()

    def on_connection_opened(self, event: Any) -> None:
        transport = event.transport
        self.outcome.opened = True
        self.outcome.max_frame = transport.remote_max_frame_size
        self.outcome.channel_max = transport.remote_channel_max
        if not self.links:
            event.connection.close()
        for number, (kind, address) in enumerate(self.links):
            if kind == "dynamic":
                event.container.create_receiver(event.connection, dynamic=True, name=f"link-{number}")
            elif kind == "receiver":
                event.container.create_receiver(event.connection, address, name=f"link-{number}")
            else:
                event.container.create_sender(event.connection, address, name=f"link-{number}")

    def on_link_opened(self, event: Any) -> None:
        link, source = event.link, event.link.remote_source
        decides = (source.address or source.dynamic) if event.receiver else not self.sends
        if decides and (event.receiver or link.remote_target.address):
            self.decide(event)

    def on_sendable(self, event: Any) -> None:
        if self.sends and not getattr(event.sender, "sent", False):
            event.sender.sent = True
            event.sender.send(self.message)

    def on_settled(self, event: Any) -> None:
        condition = event.delivery.remote.condition
        self.outcome.dispositions += (condition.name if condition else str(event.delivery.remote_state),)
        self.decide(event)

    def on_link_error(self, event: Any) -> None:
        self.outcome.link_errors += (event.link.remote_condition.name,)
        event.link.close()
        self.decide(event)

    def decide(self, event: Any) -> None:
        self.decided += 1
        if self.decided == len(self.links):
            event.connection.close()

    def on_connection_error(self, event: Any) -> None:
        condition = event.connection.remote_condition
        self.outcome.error, self.outcome.description = condition.name, condition.description
        event.connection.close()

    def on_transport_error(self, event: Any) -> None:
        condition = event.transport.condition
        self.outcome.error = self.outcome.error or condition.name
        self.outcome.description = self.outcome.description or condition.description
        self.timeout.cancel()

    def on_disconnected(self, _: Any) -> None:
        self.timeout.cancel()

    def on_connection_closed(self, event: Any) -> None:
        self.timeout.cancel()
        if condition := event.connection.remote_condition:  # theirs came after ours
            self.outcome.error, self.outcome.description = condition.name, condition.description


def attempt(
    url: str,
    credentials: Credentials = Credentials(),
    links: list[tuple[str, str | None]] | None = None,
    message: Message | None = None,
    sends: bool = True,
) -> Outcome:
    """What becomes of a client that connects so. ``links``: (sender|receiver|dynamic, address or None).

    It sends a message on each sender, and waits for its outcome; without ``sends`` an open link will do.
    """
    client = Client(url, credentials, links or [], message or Message(body="x"), sends)
    container = Container(client)
    container.start()
    container.timeout = 0.05
    while container.process():
        pass
    container.stop()
    container.process()
    return client.outcome


def urls_of(output: str) -> list[str]:
    """Where clients connect to, with TLS and without, in the order of the listeners."""
    return re.findall(r"amqps?://\S+", output)
