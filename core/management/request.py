"""Requests and responses of AMQP management as the agent sees them, independent of any encoding."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from shm.contract.administering import ALL, READ, reads
from shm.contract.management import PREFIX
from shm.contract.text import printable

OK: Final = HTTPStatus.OK
CREATED: Final = HTTPStatus.CREATED
NO_CONTENT: Final = HTTPStatus.NO_CONTENT
BAD_REQUEST: Final = HTTPStatus.BAD_REQUEST
FORBIDDEN: Final = HTTPStatus.FORBIDDEN
NOT_FOUND: Final = HTTPStatus.NOT_FOUND
INTERNAL: Final = HTTPStatus.INTERNAL_SERVER_ERROR
NOT_IMPLEMENTED: Final = HTTPStatus.NOT_IMPLEMENTED

MOST_VALUES: Final = 65_535  # of a request, and of a response: the engine of many clients decodes no more
REPLY_LIMIT: Final = 1 << 20  # bytes; longer responses must be requested in pages
_LONGEST_NUMBER: Final = 20  # characters; each number of 64 bits from 0 has fewer
_LARGEST: Final = 2**63 - 1
CONTAINER_CHARACTERS: Final = 64  # of a name from the wire, in a text
LONGEST_USER: Final = 200  # characters: the subject of a certificate is a user's name, too


class ManagementError(Exception):
    """A request that cannot be served: its status and the text for the response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class TooLongError(ManagementError):
    """The response has more octets or values than one message may have."""

    def __init__(self) -> None:
        most = f"{REPLY_LIMIT} bytes or {MOST_VALUES} values"
        super().__init__(BAD_REQUEST, f"the response has more than {most}; request it in pages, with offset and count")


class Requester(msgspec.Struct, frozen=True):
    """The source of a request: the number of its connection (None: unknown), and its rights by policy."""

    connection: int | None = None
    may_update_status: bool = True
    may_route_links: bool = True
    container: str = ""
    peer: str = "a client whose link is gone"  # address:port, for the log
    management: str = ALL
    neighbour: bool = False  # another router, acting for a client or itself
    router: str = ""  # this router's id
    edge: bool = False  # an edge router
    led: str = ""  # the address of another router's agent that the request is for
    # Returns the address for answers to a reply-to, or None if it may get none there. Without it all are allowed.
    reply_to: Callable[[str], str | None] | None = None
    routable: Callable[[str, bool], bool] = lambda pattern, outgoing: True  # by the lists of its user group
    user: str = ""  # who has logged in

    @property
    def who(self) -> str:
        """Its description for the log."""
        if self.edge:
            return f"edge router {self.container[:CONTAINER_CHARACTERS]!r} at {self.peer}"
        return f"{self.peer} (user {printable(repr(self.user), LONGEST_USER)})" if self.user else self.peer

    def may_read(self, operation: str) -> bool:
        """Whether an operation only reads and the requester may read."""
        return self.management in (READ, ALL) and reads(operation)

    def permit(self, operation: str) -> None:
        """Raises ManagementError for an operation that the requester's right does not cover."""
        if self.management == ALL or self.may_read(operation):
            return
        read = self.management == READ
        if self.neighbour:
            name = repr(self.container[:CONTAINER_CHARACTERS])
            what = (
                f"router {self.router} refuses: {operation} is not allowed to its connection with the "
                f"neighbouring router {name} ({self.peer}), by which the request came"
                f"{', which may only read' if read else ''}: `management` of its listener or connector"
            )
        else:
            what = (
                f"{operation} is not allowed to this connection{', which may only read' if read else ''}: "
                "`management` of the listener or user group that it came by"
            )
        raise ManagementError(
            FORBIDDEN, f"{what} says so, or it is neither authenticated nor from a loopback address (127.0.0.1, ::1)"
        )

    def check(self) -> None:
        """Raises ManagementError unless the requester may change an adminStatus."""
        if self.may_update_status:
            return
        why = (
            "the requester is unknown; send the request unsettled"
            if self.connection is None
            else "allowAdminStatusUpdate of its policy is no"
        )
        raise ManagementError(FORBIDDEN, f"You are not allowed to perform this operation: {why}")


class Request(msgspec.Struct, frozen=True):
    """A request whose parts have been checked for their types. Types lack the common prefix."""

    operation: str
    type: str | None = None
    name: str | None = None
    identity: str | None = None
    entity_type: str | None = None
    offset: int = 0
    count: int | None = None
    body: Any = None
    properties: dict[Any, Any] = {}
    requester: Requester = Requester()

    @property
    def attributes(self) -> dict[str, Any]:
        """The body as a map of attributes. Raises ManagementError if it is none."""
        if self.body is None:
            return {}
        if not isinstance(self.body, dict) or not all(isinstance(name, str) for name in self.body):
            raise ManagementError(BAD_REQUEST, "the body must be a map from attribute names to values")
        return self.body


class Response(msgspec.Struct, frozen=True):
    """A response. Without a text the status's standard text is sent."""

    status: int
    body: Any = None
    text: str = ""


class Later(msgspec.Struct):
    """A response that is being worked out elsewhere, so that the agent answers others meanwhile.

    ``then``, to be called in the core's thread, takes what is called there when ``finish`` can return it.
    """

    then: Callable[[Callable[[], None]], None]
    finish: Callable[[], Response]


def request_of(properties: object, body: Any) -> Request:
    """Build a request from application properties and body of a message. Raises ManagementError."""
    if not isinstance(properties, dict):
        raise ManagementError(BAD_REQUEST, "the request has no application properties; give operation and type")
    operation = _text(properties, "operation")
    if not operation:
        raise ManagementError(BAD_REQUEST, "the request has no operation; give it in the application properties")
    return Request(
        operation=operation.upper(),
        type=_type(_text(properties, "type")),
        name=_text(properties, "name"),
        identity=_text(properties, "identity"),
        entity_type=_type(_text(properties, "entityType")),
        offset=_number(properties, "offset") or 0,
        count=_number(properties, "count"),
        body=body,
        properties=properties,
    )


def _text(properties: dict[Any, Any], name: str) -> str | None:
    value = properties.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)  # a symbol is accepted, too
    if isinstance(value, int) and not isinstance(value, bool) and name == "identity":
        return str(value)
    raise ManagementError(BAD_REQUEST, f"{name} must be a string, not {type(value).__name__}")


def _type(name: str | None) -> str | None:
    return None if name is None else name.removeprefix(PREFIX)


def whole_number(name: str, value: Any) -> int:
    """Return a whole number, also from a text, which clients of qdrouterd send. Raises ManagementError."""
    if isinstance(value, str) and len(value) < _LONGEST_NUMBER and value.removeprefix("-").isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ManagementError(BAD_REQUEST, f"{name} must be a whole number, not {type(value).__name__}")
    if abs(value) > _LARGEST:
        raise ManagementError(BAD_REQUEST, f"{name} must be a whole number of 64 bits")
    return int(value)


def _number(properties: dict[Any, Any], name: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    number = whole_number(name, value)
    if number < 0 and name != "count":
        raise ManagementError(BAD_REQUEST, f"{name} must not be negative")
    return None if number < 0 else number  # a negative count means all of them
