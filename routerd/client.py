"""A client of the management protocol: what `routerd stat` and `routerd manage` speak with a router."""

from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec
from proton import Message, ProtonException, SSLDomain, Timeout
from proton.utils import BlockingConnection, SyncRequestResponse

from shm.management import PREFIX

PAGE = 500  # entities asked for at once
NODE = {"type": "org.amqp.management", "name": "self"}


class ClientError(Exception):
    """The request failed; the text says why and what to do."""


class RefusedError(ClientError):
    """The router answered, but not with success."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the router refuses ({status}): {text}")
        self.status = status


class Place(msgspec.Struct, frozen=True):
    """Which router to ask, and how to get there."""

    url: str = "amqp://127.0.0.1:5672"
    router: str | None = None  # another one than that at the URL
    timeout: float = 5.0
    trustfile: str | None = None
    certificate: str | None = None
    key: str | None = None
    mechanisms: str | None = None
    edge: str | None = None  # an edge router

    @property
    def address(self) -> str:
        """Of the management agent."""
        if self.edge:
            return f"_edge/{self.edge}/$management"
        return f"_topo/0/{self.router}/$management" if self.router else "$management"


class Client:
    """A connection to a router's management agent. Everything raises ClientError."""

    def __init__(self, place: Place) -> None:
        self._place = place
        try:
            self._connection = BlockingConnection(
                place.url,
                timeout=place.timeout,
                ssl_domain=domain(place),
                allowed_mechs=place.mechanisms,
            )
            self._client = SyncRequestResponse(self._connection, place.address)
        except (ProtonException, OSError) as error:
            raise ClientError(
                f"cannot reach the management agent at {place.url} ({_reason(error)}); "
                "is the router running? Give its address with --bus"
            ) from error

    def close(self) -> None:
        """Nothing is left of it, also if the router, or its worker, has gone."""
        with suppress(ProtonException, OSError):
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def call(self, operation: str, body: Any = None, **properties: Any) -> Any:
        """The body of the answer to a request."""
        given = {name: value for name, value in properties.items() if value is not None}
        request = Message(properties={"operation": operation, **given}, body={} if body is None else body)
        try:
            reply = self._client.call(request)
        except Timeout as error:
            raise ClientError(
                f"no answer from {self._place.address} at {self._place.url} within "
                f"{self._place.timeout:g} s ({_reason(error)}); is there a router of that id?"
            ) from error
        except ProtonException as error:
            text = f"the connection to {self._place.url} is lost ({_reason(error)}); try again"
            raise ClientError(text) from error
        found: dict[Any, Any] = reply.properties or {}
        status = int(found.get("statusCode", 0))
        if not 200 <= status < 300:
            raise RefusedError(status, str(found.get("statusDescription", "without a reason")))
        return reply.body

    def query(
        self, entity_type: str | None, names: list[str] | None = None, limit: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """The entities of a type, a page at a time: attributes by name, those without a value left out."""
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


def long_type(name: str | None) -> str | None:
    """An entity type with its prefix, from a name as tools have it: link, address, or the type itself."""
    if not name or name.startswith(PREFIX) or name == NODE["type"]:
        return name
    if name in ("link", "node"):
        return f"{PREFIX}router.{name}"
    if name in ("address", "linkRoute", "autoLink", "exchange", "binding", "routeWorker", "sourceRoutes"):
        return f"{PREFIX}router.config.{name}"
    return PREFIX + name


def domain(place: Place) -> SSLDomain | None:
    if not (place.trustfile or place.certificate):
        return None
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    if place.certificate:
        domain.set_credentials(place.certificate, place.key or place.certificate, None)
    if place.trustfile:
        domain.set_trusted_ca_db(place.trustfile)
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME, place.trustfile)
    return domain


def _reason(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
