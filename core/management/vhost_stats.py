"""The entity type `vhostStats`: what the policy allowed and denied for each configured vhost."""

from collections.abc import Callable
from typing import Any

from core.links.admission import Guarded
from core.management.entity_type import Column, Table, key_columns


def _count(attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.get(attribute, 0))


class VhostStats(Table):
    """One row for each configured vhost."""

    lenient = False
    NAME = "vhostStats"
    DESCRIPTION = "What the policy approved and denied for one vhost."
    COLUMNS = (
        *key_columns("vhostStats", "vhostStats/ and the host name.", lambda r: f"vhostStats/{r['hostname']}"),
        Column("id", "string", "Host name of the vhost.", lambda r: r["hostname"]),
        Column("hostname", "string", "Host name of the vhost.", lambda r: r["hostname"]),
        _count("connectionsApproved", "Connections that the policy approved."),
        _count("connectionsDenied", "Connections that the policy denied."),
        _count("connectionsCurrent", "Open connections."),
        Column("perUserState", "map", "Peers of the open connections, by user.", lambda r: r.get("perUserState", {})),
        Column("perHostState", "map", "Peers of the open connections, by host.", lambda r: r.get("perHostState", {})),
        _count("sessionDenied", "Sessions that the policy denied."),
        _count("senderDenied", "Senders that the policy denied."),
        _count("receiverDenied", "Receivers that the policy denied."),
        _count("maxMessageSizeDenied", "Messages that the policy denied for their size."),
    )

    def rows(self) -> list[dict[str, Any]]:
        return self._view.entities("vhost").rows

    def among(self, name: str | None, identity: str | None) -> list[dict[str, Any]]:
        """Return the vhost with the host name that an identity or an equal name says."""
        hostname = (name or "" if identity is None else identity).removeprefix("vhostStats/")
        return self._view.entities("vhost").find(None, f"vhost/{hostname}")

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        """Return what the policy has counted for a vhost."""
        hostname = entity["hostname"]
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
