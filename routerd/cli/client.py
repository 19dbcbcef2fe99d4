"""A client of AMQP management (Working Draft 9), used by `routerd stat` and `routerd manage`."""

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from proton import Message, ProtonException, Timeout
from proton.utils import SyncRequestResponse

from routerd.cli.connection_options import ClientError, Place, connect, lost, unreachable
from shm.contract.management import PREFIX

__all__ = ["Client", "ClientError", "Place", "RefusedError", "long_type", "plain"]

NO_TYPE = "No such entity type"  # what routers say that are no routerd
PAGE = 500  # entities per QUERY request
CHANGES = ("CREATE", "UPDATE", "DELETE", "PUSH")
IN_DOUBT = "the router may have made the change, or may still make it: look before you repeat it"
NODE = {"type": "org.amqp.management", "name": "self"}


class RefusedError(ClientError):
    """The router answered with a status other than 2xx."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the router refuses ({status}): {text}")
        self.status, self.text = status, text


class Client:
    """A connection to a router's management agent. Every method raises ClientError when it fails."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection = connect(place)
        try:
            self._client = SyncRequestResponse(self._connection, place.address)
        except (ProtonException, OSError) as error:
            self.close()
            raise unreachable(place, error) from error

    def close(self) -> None:
        """Close the connection; do nothing if the router or its worker is gone."""
        with suppress(ProtonException, OSError):
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def call(self, operation: str, body: Any = None, **properties: Any) -> Any:
        """Send one request and return the body of its answer.

        `properties` become application properties; those that are None are left out. Raises RefusedError if
        the router answers with a status other than 2xx.
        """
        given = {name: value for name, value in properties.items() if value is not None}
        request = Message(properties={"operation": operation, **given}, body={} if body is None else body)
        try:
            reply = self._client.call(request)
        except UnicodeEncodeError as error:
            text = error.object[max(0, error.start - 20) : error.end + 20]
            raise ClientError(f"{text!r} is not UTF-8, and AMQP has no other text; give it in UTF-8") from error
        except Timeout as error:
            raise self._late(operation) from error
        except ProtonException as error:
            raise lost(self._place, error, IN_DOUBT if operation in CHANGES else None) from error
        found: dict[Any, Any] = reply.properties or {}
        status = int(found.get("statusCode", 0))
        if not 200 <= status < 300:
            why = str(found.get("statusDescription", "without a reason"))
            advice = "; `routerd manage get-types` names those that it has" if NO_TYPE in why else ""
            raise RefusedError(status, why + advice)
        return plain(reply.body)

    def _late(self, operation: str) -> ClientError:
        """Return the error of a request without an answer, with what to do."""
        place = self._place
        address = f"{place.address} at {place.shown}"
        if place.edge:
            advice = "is there an edge router of that id? `routerd stat --connections` names those of a router"
        elif place.router:
            advice = "`routerd stat --nodes` names all routers there; an edge router takes --edge-router"
        elif self._client.sender.link.queued:
            advice = "nobody takes requests there, as at a listener with multiTenant: give another listener with --bus"
        else:
            advice = "try again, or give it longer with --timeout"
        if operation in CHANGES and not self._client.sender.link.queued:
            advice = IN_DOUBT
        return ClientError(f"no answer from {address} within {place.timeout:g} s; {advice}")

    def query(
        self, entity_type: str | None, names: list[str] | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the entities of a type as attributes by name, without attributes that are None.

        The entities are requested PAGE at a time; `limit` bounds their number.
        """
        offset = 0
        while limit is None or offset < limit:
            count = PAGE if limit is None else min(PAGE, limit - offset)
            body = self.call(
                "QUERY",
                {"attributeNames": names or []},
                **NODE,
                entityType=long_type(entity_type),
                offset=offset,
                count=count,
            )
            for row in body["results"]:
                values = zip(body["attributeNames"], row, strict=True)
                yield {name: value for name, value in values if value is not None}
            if len(body["results"]) < count:
                return
            offset += count


def plain(value: Any) -> Any:
    """Return a decoded AMQP value with Python's own numbers; proton has classes such as `int32` and `ulong`.

    A router that sends numbers of a fixed width, as qdrouterd does, would otherwise be shown as `int32(4)`.
    """
    match value:
        case bool():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case dict():
            return {plain(key): plain(one) for key, one in value.items()}
        case list():
            return [plain(one) for one in value]
    return value


def long_type(name: str | None) -> str | None:
    """Return the full name of an entity type, such as `org.apache.qpid.dispatch.router.link` for `link`."""
    if not name or name.startswith(PREFIX) or name == NODE["type"]:
        return name
    if name in ("link", "node"):
        return f"{PREFIX}router.{name}"
    if name in ("address", "linkRoute", "autoLink", "exchange", "binding", "routeWorker", "sourceRoutes"):
        return f"{PREFIX}router.config.{name}"
    return PREFIX + name
