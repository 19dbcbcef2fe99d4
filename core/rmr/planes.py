"""The planes of route tables."""

from core.links.base import Base
from core.links.plane import Plane
from core.rmr.active.busiest import BusiestRoutes
from core.rmr.active.dialling import Dialling
from core.rmr.active.intake import Intake
from core.rmr.active.opening import Openings
from core.rmr.active.route_tables import RouteTables
from core.rmr.active.unroutable_log import UnroutableLog
from core.rmr.managers.manager_sessions import ManagerSessions


def planes(core: Base) -> list[Plane]:
    """Build the planes, in the order in which they see events.

    Without a function that wakes the core, its own thread builds tables.
    """
    forwarder, setup = core.forwarder, core.setup
    tables = RouteTables(forwarder, core.addresses, Intake(core.wake), core.links, core.snapshot_store, core.served)
    dialling = Dialling(forwarder, tables, core.links, core.connections.find, range(setup.workers))
    openings = Openings(tables, dialling)
    sessions = ManagerSessions(
        forwarder, core.local, core.links, tables, dialling,
        seed=core.seed, router_id=setup.router_id, snapshot_store=core.snapshot_store,
    )  # fmt: skip
    return [tables, dialling, sessions, openings, BusiestRoutes(tables), UnroutableLog(tables)]
