"""The interfaces between a worker's handler and the objects around it."""

from typing import Any, Protocol

from shm.contract.payloads import OpenLink

AmqpError = tuple[str, str]
Name = tuple[int, int]  # index and generation of a connection


class Described(Protocol):
    """A pump that returns the content of a connection's OPEN (pump.pyx, `connection_info`)."""

    def connection_info(self, index: int) -> tuple[str, str, str, str, dict[str, Any], list[str], int]: ...


class Ends(Protocol):
    """The part of workers.loop.pump.Security that knows the peers of connections."""

    def peer(self, index: int) -> str: ...
    def listener_of(self, index: int) -> int: ...


class Pump(Described, Protocol):
    """The part of workers.loop.pump.Pump that the handler uses."""

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
    """The part of workers.loop.pump.Dialler that the handler uses."""

    def open_link(self, wish: OpenLink) -> bool: ...


class Connectors(Protocol):
    """The part of workers.control.connectors.Connectors that the handler uses."""

    def opened(self, number: int, name: Name, properties: dict[str, Any], text: str) -> None: ...
    def ended(self, number: int, name: Name, opened: bool, error: AmqpError | None) -> None: ...
