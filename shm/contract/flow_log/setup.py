"""The flow log's configuration for core, workers and recorder."""

import msgspec


class FlowLogSetup(msgspec.Struct, frozen=True):
    """One ``flowLog`` entity. The core records one of ``sampling`` deliveries; 0: there is no flow log.

    A file ends at ``roll_bytes`` or ``roll_seconds``. ``keep_bytes`` and ``keep_seconds`` bound the size and
    age of what is kept; 0: unbounded. A file in `raw` goes ``raw_seconds`` after its hour if `compact` has
    its rows. ``transactions``: the flow log contains RMR's transaction ids. ``clients``: it contains
    users and hosts of connections.
    """

    directory: str = ""
    sampling: int = 0
    roll_bytes: int = 128 << 20
    roll_seconds: int = 60
    keep_bytes: int = 0
    keep_seconds: int = 0
    raw_seconds: int = 86400
    compaction: bool = True
    transactions: bool = False
    clients: bool = True


class SetFlowLog(msgspec.Struct, tag="SetFlow", frozen=True):
    """To core, workers and recorder: replace the flow log's configuration."""

    flow: FlowLogSetup
