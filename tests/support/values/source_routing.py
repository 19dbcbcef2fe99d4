"""Source routes for tests: the vectors, and messages and workers written briefly."""

import json
from pathlib import Path
from typing import Any

from routerd.source_routes.address import Address, Route, parse_address, parse_route
from tests.model.source_routes.message import Message, new_message

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "source_route_vectors.json").read_text(encoding="utf-8"))


def a(text: str) -> Address:
    return parse_address(text)


def r(text: str) -> Route:
    """`A B` is the route A=>B."""
    return parse_route("=>".join(text.split()))


def m(onward: str, returning: str = "", payload: bytes = b"ping") -> Message:
    return new_message(r(onward), r(returning), payload)


def shown(message: Message) -> str:
    """`onward / return`, as the tables of the specification write it."""
    return f"{' '.join(map(str, message.onward))} / {' '.join(map(str, message.returning))}".strip()
