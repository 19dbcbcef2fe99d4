"""`routerd route trace`: sends one live message through the route workers of a route and back to its sender.

The trace replaces the destination, the last address of the route, by an address of its own. Route workers
treat the message like any other, and the destination never sees it.
"""

from contextlib import suppress
from typing import Any

from msgspec import Struct
from proton import Delivery, Message, ProtonException, Timeout, symbol
from proton.utils import BlockingConnection, LinkDetached

from routerd.cli.connection_options import ClientError, Place, connect, words
from routerd.source_routes.address import Address, Route, local, show_route
from shm.contract.numbers import counted

ONWARD, RETURN = "x-opt-route.onward", "x-opt-route.return"
HOPS, STATE, META = "x-opt-route.hops", "x-opt-route.state", "x-opt-route.meta"
ME = "trace"  # the sender's return route


class Followed(Struct, frozen=True):
    """What happened to the message: the route workers it passed and how it arrived, or why it did not."""

    passed: list[str]
    returning: Route = ()
    state: str = "none"
    hops: int = 0
    refused: str = ""
    lost: bool = False  # the router took it, and it did not come back in time


def follow(place: Place, onward: Route) -> Followed:
    """Send a message along a route of at least one route worker and a destination. Raises ClientError."""
    connection = connect(place)
    try:
        return _followed(connection, onward, place.timeout)
    except LinkDetached as error:
        raise ClientError(f"the router takes no messages to any address from here: {words(error)}") from error
    except ProtonException as error:
        raise ClientError(f"the connection to {place.shown} is lost ({words(error)}); try again") from error
    finally:
        with suppress(ProtonException, OSError):
            connection.close()


def _followed(connection: BlockingConnection, onward: Route, timeout: float) -> Followed:
    receiver: Any = connection.create_receiver(None, dynamic=True, credit=1)
    here = local(receiver.link.remote_source.address)
    sender = connection.create_sender(None)
    message = Message()
    message.annotations = {
        symbol(ONWARD): [_value(one) for one in (*onward[:-1], here)],
        symbol(RETURN): [ME],
        symbol(META): {symbol("trace"): []},
    }
    delivery: Any = sender.link.send(message)  # its outcome depends on our receiver, so do not wait for it
    try:
        connection.wait(lambda: bool(delivery.settled or receiver.fetcher.has_message), timeout=timeout)
    except Timeout:
        return Followed([], lost=True)
    if receiver.fetcher.has_message:
        return _arrived(receiver)
    if delivery.remote_state == Delivery.REJECTED:
        condition = delivery.remote.condition
        return Followed([], refused=f"{condition.name}: {condition.description}" if condition else "rejected")
    if delivery.remote_state in (Delivery.RELEASED, Delivery.MODIFIED):
        return Followed([], refused="amqp:not-found: an address of the route leads nowhere from there")
    return Followed([], lost=True)


def _arrived(receiver: Any) -> Followed:
    message = receiver.receive()
    receiver.accept()
    there = message.annotations or {}
    passed = list(map(str, there.get(META, {}).get("trace", ())))
    returning = tuple(map(_address, there.get(RETURN, ())))
    return Followed(passed, returning, str(there.get(STATE, "none")), int(there.get(HOPS, 0)))


def _address(value: Any) -> Address:
    return local(value) if isinstance(value, str) else Address(int(value[0]), bytes(value[1]))


def _value(address: Address) -> Any:
    return address.value.decode() if not address.type else [address.type, address.value]


def lines(followed: Followed, onward: Route) -> list[str]:
    """Return the lines that report what happened to the message."""
    if followed.refused:
        return [f"refused, {followed.refused}"]
    if followed.lost:
        return ["accepted on its way, and did not come back in time"]
    text = [f"{number:3}  {name}" for number, name in enumerate(followed.passed, 1)]
    end = show_route(followed.returning).removesuffix(ME).rstrip("=>") or "none but the sender"
    text.append(f"arrives at {onward[-1]} after {counted(followed.hops, 'worker')}")
    text.append(f"return route to the sender by: {end}; {followed.state}")
    return text
