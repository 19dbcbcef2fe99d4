"""The entity type `vhostStats`: what the policy allowed and denied for each configured vhost."""

from collections.abc import Callable
from typing import Any

from core.links.admission import Guarded
from core.management.entity_type import Column, Table, type_column
from core.management.view import View


def _count(attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.get(attribute, 0))


class VhostStats(Table):
    """One row for each configured vhost."""

    lenient = False
    NAME = "vhostStats"
    DESCRIPTION = "What the policy of a vhost allowed and denied."
    COLUMNS = (
        Column("name", "string", "vhostStats/ and the host name.", lambda r: f"vhostStats/{r['hostname']}"),
        Column("identity", "string", "vhostStats/ and the host name.", lambda r: f"vhostStats/{r['hostname']}"),
        type_column("vhostStats"),
        Column("id", "string", "The vhost.", lambda r: r["hostname"]),
        Column("hostname", "string", "The vhost.", lambda r: r["hostname"]),
        _count("connectionsApproved", "Connections approved."),
        _count("connectionsDenied", "Connections denied."),
        _count("connectionsCurrent", "Connections open."),
        Column("perUserState", "map", "Connections of each user.", lambda r: r.get("perUserState", {})),
        Column("perHostState", "map", "Connections of each machine.", lambda r: r.get("perHostState", {})),
        _count("sessionDenied", "Sessions denied."),
        _count("senderDenied", "Senders denied."),
        _count("receiverDenied", "Receivers denied."),
        _count("maxMessageSizeDenied", "Messages denied for their size."),
    )

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def rows(self) -> list[dict[str, Any]]:
        return [self._row(one["hostname"]) for one in self._view.management.entities.get("vhost", ())]

    def _row(self, hostname: str) -> dict[str, Any]:
        counted = self._view.core.admissions.vhosts.get(hostname)
        if counted is None:
            return {"hostname": hostname}
        present = self._view.core.admissions.of_vhost(hostname)
        return {
            "hostname": hostname,
            "connectionsApproved": counted.approved,
            "connectionsDenied": counted.denied,
            "connectionsCurrent": counted.current,
            "perUserState": _by(present, lambda one: one.admission.user),
            "perHostState": _by(present, lambda one: one.admission.host),
            "sessionDenied": counted.sessions_denied,
            "senderDenied": counted.senders_denied,
            "receiverDenied": counted.receivers_denied,
            "maxMessageSizeDenied": counted.sizes_denied,
        }


def _by(present: list[Guarded], name: Callable[[Guarded], str]) -> dict[str, list[str]]:
    """Group the peers of connections by a name, such as their user."""
    found: dict[str, list[str]] = {}
    for one in present:
        found.setdefault(name(one), []).append(one.peer)
    return found
