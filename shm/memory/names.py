"""The names of a router's segments and of its semaphore."""

import re
from dataclasses import dataclass
from typing import Final

_ID_LIMIT: Final = 64  # of NAME_MAX's 255 characters


def segment_prefix(router_id: str, pid: int) -> str:
    """Return the prefix of a router's segment names; ``_`` replaces characters that a name cannot have."""
    return f"/routerd-{re.sub(r'[^A-Za-z0-9._-]', '_', router_id)[:_ID_LIMIT]}-{pid}"


@dataclass(frozen=True)
class Names:
    """The names of a family of segments: POSIX names with one leading slash."""

    prefix: str

    @property
    def control(self) -> str:
        return f"{self.prefix}-control"

    @property
    def rings(self) -> str:
        return f"{self.prefix}-rings"

    @property
    def flow(self) -> str:
        """The segment with the core's records for the recorder."""
        return f"{self.prefix}-flow"

    @property
    def flight(self) -> str:
        """The segment of the flight recorder; a router without one has no such segment."""
        return f"{self.prefix}-flight"

    @property
    def semaphore(self) -> str:
        """The semaphore that the core sleeps on."""
        return f"{self.prefix}-core"

    def arena(self, index: int) -> str:
        """Return the name of a worker's arena; the core's has the number ``places``."""
        return f"{self.prefix}-arena-{index}"
