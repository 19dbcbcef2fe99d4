"""How far each router has come: its watermark is the time of its newest record.

Hours are complete up to the router that is furthest behind, less the time that records may be late. A router of which
no file came for a while, as files of others did, has gone: nobody waits for it. Nothing is ever refused for being late.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipeline.flow_log.survey import Survey

FORM = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(slots=True)
class Watermarks:
    """The watermarks of routers, in µs since 1970, and when the last file of each came, in ns.

    A record may be ``delay_s`` late, and a router silent for ``gone_s``.
    """

    delay_s: float
    gone_s: float
    newest: dict[str, int] = field(default_factory=dict)
    came: dict[str, int] = field(default_factory=dict)

    def take(self, found: Survey) -> None:
        """Advance by the files of a log; nothing ever goes back."""
        for file in (*found.clean, *found.tangled):
            if file.times is not None and file.router:
                self.newest[file.router] = max(file.times[1], self.newest.get(file.router, file.times[1]))
                came = found.came.get(file.path, 0)
                self.came[file.router] = max(came, self.came.get(file.router, came))

    def gone(self) -> list[str]:
        """Return the routers of which no file came for a while before the last file of any."""
        last = max(self.came.values(), default=0)
        return sorted(router for router, came in self.came.items() if last - came > self.gone_s * 1e9)

    def complete_until(self) -> int | None:
        """Return the time before which the records of all routers that have not gone are there, in µs since 1970."""
        gone = set(self.gone())
        behind = min((time for router, time in self.newest.items() if router not in gone), default=None)
        return None if behind is None else behind - int(self.delay_s * 1e6)

    def said(self) -> dict[str, Any]:
        """Return all of this for a summary."""
        gone = self.gone()
        routers = {
            router: {"newest": moment(time), "gone": router in gone} for router, time in sorted(self.newest.items())
        }
        return {"complete_until": moment(self.complete_until()), "routers": routers}


def moment(micros: int | None) -> str | None:
    """Return a time in µs since 1970 as it is written."""
    return None if micros is None else datetime.fromtimestamp(micros // 1_000_000, UTC).strftime(FORM)
