"""The registry of a worker's connections: their numbers, peers and terms, and messages about them to the core.

AMQP, RMR and Ockam connections share it.
"""

import msgspec

from shm.contract.complaints import bursts
from shm.contract.control import ConnectorSetup, ListenerSetup, Setup
from shm.contract.payloads import LONGEST, ConnectorState, Cost, Error, LinkRefused, record
from workers.control.guard import Passed
from workers.control.neighbours import AmqpError, Name, Pump
from workers.control.opening import CAPABILITIES, open_properties


class TooLongError(ValueError):
    """A payload is longer than the core reads."""


class Registry:
    """The connections of one pump. All tables but ``listeners`` are by the index of the connection."""

    def __init__(self, setup: Setup, pump: Pump) -> None:
        self.setup = setup
        self.pump = pump
        self.listeners: dict[int, ListenerSetup] = {one.number: one for one in setup.listeners}  # by number
        self.numbers: dict[int, int] = {}  # unique in the router, for logs and qd.conn-id
        self.peers: dict[int, str] = {}
        self.passed: dict[int, Passed] = {}  # those that the policy has admitted
        self.accepted: dict[int, ListenerSetup] = {}  # those of listeners, with the settings that they opened under
        self.dialled_by: dict[int, ConnectorSetup] = {}  # those of connectors
        self.lines = bursts()  # about connections, by text and place in the pump

    def number(self, index: int) -> int:
        """Return a connection's number in the router, for logs and qd.conn-id; the first call assigns it."""
        if index not in self.numbers:
            self.numbers[index] = self.pump.next_connection()
        return self.numbers[index]

    # ---- connections of connectors ----

    def dialled(self, name: Name, connector: ConnectorSetup, host: str) -> int:
        """Send OPEN on a new connection of a connector; return the connection's number in the router."""
        index, _ = name
        number = self.number(index)
        self.peers[index] = host
        self.dialled_by[index] = connector
        properties = open_properties(connector, self.setup.version, number)
        self.pump.connection_open(index, self.setup.router_id, CAPABILITIES, properties)
        return number

    def hang_up(self, name: Name, error: AmqpError) -> None:
        """Close a connection of a connector."""
        self.pump.connection_close(*name, error)

    def connector_state(self, state: ConnectorState) -> None:
        """Tell the core the state of a connector."""
        self.post(state)

    def connector_cost(self, name: Name, connector: ConnectorSetup) -> None:
        """Tell the core the new cost of a connection, if it knows the connection."""
        index, generation = name
        self.dialled_by[index] = connector
        if index in self.passed:
            cost = Cost(index, generation, connector.cost)
            self.post(cost, connection=index, connection_generation=generation)

    # ---- the core ----

    def link_refused(self, request: int, error: AmqpError | None) -> None:
        """Tell the core that a link which it has requested was refused."""
        self.post(LinkRefused(request, Error(*error) if error else None))

    def post(self, message: msgspec.Struct, **names: int) -> None:
        """Post a payload to the core; ``names`` are those of the record's link or connection.

        Raises TooLongError for an ``Attach`` or ``ConnectionOpened`` that its peer has made longer than the core
        reads. No other payload can be.
        """
        kind, payload = record(message)
        if len(payload) > LONGEST:
            raise TooLongError(f"{type(message).__name__} has {len(payload)} octets, and {LONGEST} are possible")
        self.pump.post(kind, payload, **names)
