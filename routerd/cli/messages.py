"""`routerd send`, `receive` and `ping`: first messages through a router without a program of one's own."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click
import msgspec
from proton import Condition, Delivery, Endpoint, Message, ProtonException, Timeout
from proton.handlers import IncomingMessageHandler
from proton.utils import BlockingConnection, LinkDetached

from routerd.cli.client import NODE, Client, ClientError, Place, plain
from routerd.cli.connection_options import connect, lost, words
from routerd.cli.printed import print_json
from shm.contract.numbers import counted
from shm.contract.text import printable, reason

PATIENCE = 1.0  # seconds of silence while an outcome is awaited
PREFETCH = 1000  # credit for round trips, so that few of them wait for more
SHOWN = ("id", "address", "subject", "reply_to", "correlation_id", "properties", "body")
OUTCOMES = {Delivery.REJECTED: "rejected", Delivery.RELEASED: "released", Delivery.MODIFIED: "modified"}


class Sending(msgspec.Struct, frozen=True):
    """What to send: the messages' bodies and what they have in common."""

    bodies: Iterable[str]
    count: int = 1
    durable: bool = False
    ttl: int | None = None  # seconds
    subject: str | None = None
    properties: dict[str, str | int] = {}
    as_json: bool = False


class Receiving(msgspec.Struct, frozen=True):
    """How many messages to take, for how many seconds to wait for the next one, and how to print them."""

    count: int | None = None
    wait: float | None = None
    as_json: bool = False


class StoppedError(ClientError):
    """Not all has been sent; ``printed`` says whether the figures that were printed have this error."""

    printed = False


class InDoubtError(StoppedError):
    """Nobody told the outcome of a message, which was ``sent`` or still waited for credit."""

    def __init__(self, sent: bool, why: str) -> None:
        told = (
            "the message was sent and its outcome is unknown: a receiver may have it, so sending it again may double it"
            if sent
            else "the message was not sent; it is safe to send it again"
        )
        super().__init__(f"{why}; {told}")
        self.sent = sent


@contextmanager
def _connected(place: Place, address: str | None) -> Iterator[BlockingConnection]:
    """Yield an open connection to the router. Raises ClientError for whatever goes wrong on it."""
    connection = connect(place)
    try:
        yield connection
    except LinkDetached as error:
        raise ClientError(
            f"the router lets no link to {address or 'an address of its choice'}: {words(error)}"
        ) from error
    except Timeout:
        raise
    except ProtonException as error:
        raise lost(place, error) from error
    finally:
        with suppress(ProtonException, OSError):
            connection.close()


def send(place: Place, address: str, sending: Sending) -> int:
    """Send messages one after the other and return how many were not accepted, each with a line of its own."""
    with _connected(place, address) as connection:
        try:
            sender: Any = connection.create_sender(address)
        except Timeout as error:
            raise _late(place, f"the link to {address}") from error
        accepted = refused = 0
        try:
            for body in sending.bodies:
                for _ in range(sending.count):
                    outcome = _outcome(place, connection, sender, _message(body, sending))
                    accepted, refused = accepted + (not outcome), refused + bool(outcome)
                    if outcome:
                        click.echo(printable(f"{address}: {outcome}"), err=True)
        except click.ClickException as error:  # of the outcome, or of who makes the bodies
            stopped = error if isinstance(error, StoppedError) else StoppedError(error.message)
            _tell(sending, accepted, refused, stopped)
            raise stopped from error
        _tell(sending, accepted, refused)
    return refused


def _tell(sending: Sending, accepted: int, refused: int, stopped: StoppedError | None = None) -> None:
    """Print how many messages had which outcome; with an InDoubtError as ``stopped`` the last one had none."""
    unknown = isinstance(stopped, InDoubtError) and stopped.sent
    unsent = isinstance(stopped, InDoubtError) and not stopped.sent
    if sending.as_json:
        found: dict[str, Any] = {
            "accepted": accepted,
            "notAccepted": refused,
            "unknown": int(unknown),
            "notSent": int(unsent),
        }
        if stopped is not None:
            stopped.printed = True
            found["error"] = stopped.message
        print_json(found)
        return
    parts = [f"{accepted} accepted", *([f"{refused} not"] if refused else [])]
    parts += ["1 with an unknown outcome"] * unknown + ["1 not sent"] * unsent
    click.echo(", ".join(parts))


def _message(body: str, sending: Sending) -> Message:
    properties = sending.properties or None  # without any the section is left out
    return Message(
        body=body, subject=sending.subject, durable=sending.durable, ttl=sending.ttl or 0.0, properties=properties
    )


def _outcome(place: Place, connection: BlockingConnection, sender: Any, message: Message) -> str:
    """Return why a message was not accepted; "" if it was. Raises ClientError if nobody says.

    An outcome counts although the peer detaches or closes with it, as a router does after a message that is too large.
    """
    opened: Any = connection.conn
    if (sender.link.state | opened.state) & Endpoint.LOCAL_CLOSED:  # as Proton does once the peer has closed
        told = _told(sender.link.remote_condition or opened.remote_condition)
        raise InDoubtError(False, f"the router has closed the link or the connection{told}")
    delivery: Any = sender.link.send(message)
    try:
        _wait(connection, lambda: bool(delivery.settled or delivery.remote_state), place)
    except Timeout as error:
        sent = not sender.link.queued
        if not sent:
            delivery.abort()  # or else credit that comes now would send it after all
        why = (
            f"an outcome did not come within {place.timeout:g} s"
            if sent
            else f"no credit came within {place.timeout:g} s: nobody receives from the address, its receivers take no "
            "more, or the policy of another router on the way refuses the address, which this router's log says"
        )
        raise InDoubtError(sent, why) from error
    except ProtonException as error:
        if not delivery.remote_state:
            raise InDoubtError(not sender.link.queued, f"the connection or link is lost ({words(error)})") from error
    state, condition = delivery.remote_state, delivery.remote.condition
    delivery.settle()
    if state == Delivery.ACCEPTED:
        return ""
    why = _told(condition)
    if state == Delivery.RELEASED:
        why = "; nobody receives from this address, or the receiver gave the message back"
    return f"{OUTCOMES.get(state, 'no outcome')}{why}"


def _told(condition: Condition | None) -> str:
    return f" ({condition.name}: {condition.description})" if condition else ""


def _wait(connection: BlockingConnection, over: Callable[[], bool], place: Place) -> None:
    """Wait until something is over, and say after a while what for. Raises Timeout."""
    patience = min(PATIENCE, place.timeout)
    with suppress(Timeout):
        connection.wait(over, timeout=patience)
    if not over():
        if patience < place.timeout:
            click.echo(f"waiting for an outcome, for {place.timeout:g} s at most", err=True)
        connection.wait(over, timeout=place.timeout - patience)


def _late(place: Place, what: str) -> ClientError:
    return ClientError(f"{what} did not come within {place.timeout:g} s; give it longer with --timeout")


def receive(place: Place, address: str, receiving: Receiving) -> int:
    """Print and accept messages until there are enough, or none comes in time; return how many came."""
    came = 0
    with suppress(KeyboardInterrupt), _connected(place, address) as connection:
        try:
            receiver: Any = connection.create_receiver(address, credit=0)  # it takes no message that it does not print
        except Timeout as error:
            raise _late(place, f"the link from {address}") from error
        kept = [one for one in receiver.fetcher.handlers if not isinstance(one, IncomingMessageHandler)]
        receiver.fetcher.handlers[:] = [*kept, _Incoming(auto_accept=False, delegate=receiver.fetcher)]
        while receiving.count is None or came < receiving.count:
            try:
                message = receiver.receive(timeout=receiving.wait)  # None: for ever
            except Timeout:
                click.echo(f"no message came for {receiving.wait:g} s", err=True)
                break
            try:
                _show(message, receiving.as_json)
            except OSError:
                receiver.release(delivered=False)  # nobody has seen it
                raise
            receiver.accept()
            came += 1
    click.echo(f"{counted(came, 'message')} received", err=True)
    return came


class _Incoming(IncomingMessageHandler):
    """Gives a message back that cannot be decoded: others may be able to, and it does not come here again."""

    def on_delivery(self, event: Any) -> None:
        try:
            super().on_delivery(event)
        except (ValueError, TypeError) as error:  # of Proton's decoder, for what strangers send
            event.link.advance()
            event.delivery.local.undeliverable = True
            event.delivery.update(Delivery.MODIFIED)
            event.delivery.settle()
            event.link.flow(1)
            click.echo(f"a message cannot be decoded, and goes back: {reason(error)}", err=True)


def _show(message: Message, as_json: bool) -> None:
    if as_json:
        found = {name: getattr(message, name) for name in SHOWN}
        said = {name: plain(value) for name, value in found.items() if value not in (None, "", {})}
        print_json(said, in_a_line=True, hook=_as_text)
    else:
        click.echo(printable(_as_text(message.body)))


def _as_text(value: Any) -> str:
    """Return a body as text: octets as UTF-8 where they are, with escapes elsewhere."""
    if isinstance(value, memoryview):
        value = bytes(value)
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def ping(place: Place, count: int, interval: float, as_json: bool) -> None:
    """Measure round trips and print them. Raises ClientError.

    To the router at the URL: a message through it and back, to an address of its choice. To another router of the
    network: a request to its management agent and the response. An interruption ends them early.
    """
    if place.router or place.edge:
        with Client(place) as client:
            took = _rounds(lambda: client.call("GET-OPERATIONS", **NODE, entityType=NODE["type"]), count, interval)
    else:
        with _connected(place, None) as connection:
            try:
                took = _rounds(_round(connection, place.timeout), count, interval)
            except Timeout as error:
                raise _late(place, "the message, or its outcome,") from error
    from statistics import median  # noqa: PLC0415  it loads much, and no other command needs it

    milliseconds = sorted(1000 * one for one in took)
    found = {
        "count": len(milliseconds),
        "least": milliseconds[0],
        "median": median(milliseconds),
        "p99": milliseconds[min(len(milliseconds) - 1, len(milliseconds) * 99 // 100)],
        "most": milliseconds[-1],
    }
    if as_json:
        print_json(found)
    else:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in found.items() if name != "count")
        click.echo(f"{counted(len(milliseconds), 'round trip')} in milliseconds: {figures}")


def _round(connection: BlockingConnection, timeout: float) -> Callable[[], None]:
    """Return a function that sends one message and waits until it has come back and is accepted."""
    receiver: Any = connection.create_receiver(None, dynamic=True, credit=PREFETCH)
    sender: Any = connection.create_sender(receiver.link.remote_source.address)
    message = Message(body="ping")

    def once() -> None:
        delivery: Any = sender.link.send(message)
        receiver.receive(timeout=timeout)
        receiver.accept()
        connection.wait(lambda: bool(delivery.settled), timeout=timeout)

    return once


def _rounds(once: Callable[[], Any], count: int, interval: float) -> list[float]:
    """Return the seconds that each of `count` calls took; `interval` seconds lie between two of them.

    An interruption ends them, and is passed on if there is none to return.
    """
    took: list[float] = []
    try:
        for number in range(count):
            if number:
                time.sleep(interval)
            began = time.perf_counter()
            once()
            took.append(time.perf_counter() - began)
    except KeyboardInterrupt:
        if not took:
            raise
    return took
