"""`routerd manage`: single requests to a router's management agent, answered as JSON."""

import sys
from typing import Any

import msgspec

from routerd.client import NODE, Client, ClientError, Place, long_type

ABOUT_NODE = (
    "get-types", "get-attributes", "get-operations", "get-annotations", "get-mgmt-nodes", "get-schema",
    "get-json-schema", "get-log",
)  # fmt: skip
OPERATIONS = ("query", "create", "read", "update", "delete", *ABOUT_NODE)


class Ask(msgspec.Struct, frozen=True):
    """One request: `arguments` are attribute names for a query, `name=value` for create and update."""

    operation: str
    arguments: tuple[str, ...] = ()
    type: str | None = None
    name: str | None = None
    identity: str | None = None
    limit: int | None = None


def run(place: Place, ask: Ask) -> int:
    """Do it and print the answer; the exit status."""
    try:
        with Client(place) as client:
            answer = perform(client, ask)
    except ClientError as error:
        print(error, file=sys.stderr)
        return 1
    if answer is not None:
        print(answer if isinstance(answer, str) else _json(answer))
    return 0


def perform(client: Client, ask: Ask) -> Any:
    """The answer; None: there is none to show. Raises ClientError."""
    names = {"type": long_type(ask.type), "name": ask.name, "identity": ask.identity}
    match ask.operation:
        case "query":
            return list(client.query(ask.type, list(ask.arguments), ask.limit))
        case "create" | "update":
            return client.call(ask.operation.upper(), attributes(ask.arguments), **names)
        case "read":
            return client.call("READ", **names)
        case "delete":
            client.call("DELETE", **names)
            return None
    return client.call(ask.operation.upper(), **NODE, entityType=long_type(ask.type), limit=ask.limit)


def attributes(arguments: tuple[str, ...]) -> dict[str, Any]:
    """Attributes from `name=value`; a value that is JSON is what it says, everything else is text.

    Raises ClientError.
    """
    found: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            raise ClientError(f"{argument!r} is not understood; give attributes as name=value")
        try:
            found[name] = msgspec.json.decode(text)
        except msgspec.DecodeError:
            found[name] = text
    return found


def _json(answer: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(answer, enc_hook=str), indent=2).decode()
