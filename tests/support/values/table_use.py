"""Tables in use, as installations make them."""

from dataclasses import dataclass

from core.rmr.active.compiled import updated
from core.rmr.tables.state import Installed
from core.rmr.tables.table import MeidMap, Table


@dataclass(frozen=True, slots=True)
class Use(Installed):
    """What is in use."""

    def apply(self, value: Table | MeidMap) -> "Use":
        """With a table, an update or a map."""
        if isinstance(value, MeidMap):
            kept = {meid: one for meid, one in self.owners.items() if meid not in value.deleted}
            return Use(self.table, kept | value.owners)
        if value.complete or self.table is None:
            return Use(value, self.owners)
        return Use(updated(self.table, value), self.owners)
