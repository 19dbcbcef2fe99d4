"""`routerd manage`: sends one request to a router's management agent and prints the answer as JSON."""

from collections.abc import Collection
from http import HTTPStatus
from typing import Any

import click
import msgspec

from routerd.cli.client import NODE, Client, ClientError, Place, RefusedError, long_type
from routerd.cli.printed import print_json
from routerd.config.formats.closest import closest

ABOUT_NODE = (
    "get-types", "get-attributes", "get-operations", "get-annotations", "get-mgmt-nodes", "get-schema",
    "get-json-schema", "get-log",
)  # fmt: skip
UNTYPED = ("get-log", "get-mgmt-nodes")
UNNAMED = "No name or identity"  # what a router says for want of them
OPERATIONS = ("query", "create", "read", "update", "delete", *ABOUT_NODE)


class Ask(msgspec.Struct, frozen=True):
    """One request: `arguments` are attribute names for a query, `name=value` for create and update."""

    operation: str
    arguments: tuple[str, ...] = ()
    type: str | None = None
    name: str | None = None
    identity: str | None = None
    limit: int | None = None


def run(place: Place, ask: Ask) -> None:
    """Send the request and print the answer. Raises click.UsageError or ClientError."""
    if text := _mistake(ask):
        raise click.UsageError(text)
    with Client(place) as client:
        answer = perform(client, ask)
        if strange := unknown(client, ask, answer):
            raise ClientError("; ".join(strange))
    try:
        if isinstance(answer, str):
            click.echo(answer)
        elif answer is not None:
            print_json(answer)
    except OSError as error:
        if ask.operation not in ("create", "update"):
            raise
        done = f"the router has made the change ({ask.operation}), but its answer cannot be written"
        raise ClientError(f"{done} ({error.strerror}); do not repeat it") from error


def _mistake(ask: Ask) -> str | None:
    """Return what is wrong with a request, found without asking the router; None if nothing is."""
    if ask.operation not in OPERATIONS:
        guess = closest(ask.operation, OPERATIONS)
        instead = f"did you mean {guess}?" if guess else f"give one of {', '.join(OPERATIONS)}"
        return f"there is no operation {ask.operation!r}; {instead}"
    if ask.operation in ("create", "update"):
        if ask.operation == "update" and not ask.arguments:
            return "update changes nothing without attributes; give some as name=value"
        odd = next((one for one in ask.arguments if not one.partition("=")[0] or "=" not in one), None)
        return odd and f"{odd!r} is not understood; give attributes as name=value"
    if ask.operation == "query":
        odd = next((one for one in ask.arguments if "=" in one), None)
        return odd and f"query takes names of attributes, and not {odd!r}"
    if ask.operation in UNTYPED and ask.type is not None:
        more = "; `routerd log --module` chooses lines" if ask.operation == "get-log" else ""
        return f"{ask.operation} takes no --type{more}"
    return f"{ask.operation} takes no {ask.arguments[0]!r}" if ask.arguments else None


def perform(client: Client, ask: Ask) -> Any:
    """Return the answer, or None if there is nothing to print. Raises ClientError."""
    names = {"type": long_type(ask.type), "name": ask.name, "identity": ask.identity}
    match ask.operation:
        case "query":
            return list(client.query(ask.type, list(ask.arguments), ask.limit))
        case "create":
            return client.call("CREATE", attributes(ask.arguments), **names)
        case "update" | "read" | "delete":
            answer = _of_one(client, ask, attributes(ask.arguments), names)
            return None if ask.operation == "delete" else answer
    return client.call(ask.operation.upper(), **NODE, entityType=long_type(ask.type), limit=ask.limit)


def _of_one(client: Client, ask: Ask, body: dict[str, Any], names: dict[str, str | None]) -> Any:
    """Return the answer to a request about one entity. Raises RefusedError, with where to find the one meant."""
    try:
        return client.call(ask.operation.upper(), body, **names)
    except RefusedError as error:
        unnamed = UNNAMED in error.text or (ask.operation == "read" and ask.name is None and ask.identity is None)
        if ask.type and (unnamed or error.status == HTTPStatus.NOT_FOUND):
            text = f"{error.text}; `routerd manage query --type {ask.type}` lists all with their names and identities"
            raise RefusedError(error.status, text) from error
        raise


def unknown(client: Client, ask: Ask, answer: Any) -> list[str]:
    """Return what is wrong with each name in a query that is no attribute: the agent ignores these silently."""
    if ask.operation != "query":
        return []
    empty = [name for name in ask.arguments if not any(name in row for row in answer)]
    types = client.call("GET-ATTRIBUTES", **NODE, entityType=long_type(ask.type)) if empty else {}
    known = sorted({name for names in types.values() for name in names})
    return [_no_attribute(name, known, ask.type) for name in empty if name not in known]


def _no_attribute(name: str, known: Collection[str], entity_type: str | None) -> str:
    guess = closest(name, known)
    command = "routerd manage get-attributes" + (f" --type {entity_type}" if entity_type else "")
    return f"there is no attribute {name!r}; " + (f"did you mean {guess}?" if guess else f"`{command}` names them all")


def attributes(arguments: tuple[str, ...]) -> dict[str, Any]:
    """Return the attributes in `name=value` arguments: a value that is JSON is decoded, any other is text."""
    found: dict[str, Any] = {}
    for argument in arguments:
        name, _, text = argument.partition("=")
        try:
            found[name] = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            found[name] = text  # the client reports text that AMQP cannot carry
    return found
