"""The entity type `policy`: the configuration, and what the router has denied."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from core.management.configured import Configured, column
from core.management.request import Request, Response
from core.management.view import View
from shm.contract.management import TypeSchema
from shm.statistics import stats

_COUNTS = (
    "connectionsProcessed", "connectionsDenied", "connectionsCurrent", "linksDenied", "maxMessageSizeDenied",
    "totalDenials",
)  # fmt: skip


class Policies(Configured):
    """The single policy of the router."""

    def __init__(self, view: View, schema: TypeSchema) -> None:
        super().__init__(view, schema)
        self.columns |= {name: column(name, 0) for name in _COUNTS}

    def update(self, request: Request) -> Response:
        """Update the policy, which a request need not name."""
        if request.name is None and request.identity is None:
            request = replace(request, identity=str(self.rows()[0]["identity"]))
        return super().update(request)

    def row(self, entity: dict[str, Any]) -> dict[str, Any]:
        """Return the configuration with the present counts."""
        view = self._view
        pages = [view.segments.worker_stats(i) for i in range(view.segments.workers)]
        workers = [stats.read(page) for page in pages]
        core = stats.read(view.segments.core_stats())
        unknown, sizes = _sum(workers, "refused_vhost"), _sum(workers, "refused_size")
        connections = unknown + core["refused_connections"]
        links = core["refused_links"] + core["refused_addresses"]
        return {
            **entity,
            "connectionsProcessed": view.core.admissions.processed + unknown,
            "connectionsDenied": connections,
            "connectionsCurrent": len(view.core.connections),
            "linksDenied": links,
            "maxMessageSizeDenied": sizes,
            "totalDenials": connections + links + sizes + _sum(workers, "refused_sessions"),
        }


def _sum(pages: Iterable[dict[str, int]], name: str) -> int:
    return sum(page[name] for page in pages)
