"""What a worker's handler asks of, or tells, the objects around it."""

from typing import Any, Protocol

from shm.contract.payloads import OpenLink

AmqpError = tuple[str, str]
Name = tuple[int, int]  # index and generation of a connection


class Described(Protocol):
    """A pump that tells what a connection's OPEN said: container, hostname, user, …, and its place."""

    def connection_info(self, index: int) -> tuple[str, str, str, str, dict[str, Any], list[str], int]: ...


class Ends(Protocol):
    """What is known of the other ends of connections."""

    def peer(self, index: int) -> str: ...
    def listener_of(self, index: int) -> int: ...


class Pump(Described, Protocol):
    """What the handler asks of workers.loop.pump.Pump."""

    def next_connection(self) -> int: ...
    def connection_open(
        self, index: int, container: str, capabilities: list[str], properties: dict[str, Any]
    ) -> None: ...
    def connection_annotations(self, index: int, form: int, strip_in: bool, strip_out: bool) -> None: ...
    def connection_close(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...
    def link_open(
        self, index: int, generation: int, address: str | None, keyed: bool = False, capacity: int = 0
    ) -> bool: ...
    def links_seen(self, links: bytes, now: int) -> bytes: ...
    def link_refuse(self, index: int, generation: int, name: str, description: str) -> None: ...
    def link_close(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...
    def post(
        self,
        kind: int,
        payload: bytes,
        link: int = ...,
        link_generation: int = 0,
        connection: int = 0,
        connection_generation: int = 0,
    ) -> None: ...


class Dialler(Protocol):
    """What the handler asks of workers.loop.pump.Dialler."""

    def open_link(self, wish: OpenLink) -> bool: ...


class Connectors(Protocol):
    """What the handler tells workers.control.connectors.Connectors."""

    def opened(self, number: int, name: Name, properties: dict[str, Any], text: str) -> None: ...
    def ended(self, number: int, name: Name, opened: bool, error: AmqpError | None) -> None: ...
