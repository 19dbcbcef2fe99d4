"""The flow log as core, workers and recorder are told of it."""

import msgspec


class FlowSetup(msgspec.Struct, frozen=True):
    """One ``flowLog`` entity. One of ``sampling`` deliveries is recorded; 0: there is no flow log.

    ``roll_bytes`` and ``roll_seconds`` end a file, ``keep_bytes`` and ``keep_seconds`` its life; 0: nothing
    does. ``raw_seconds`` after its hour a file goes whose rows stand in a compacted one.
    ``transactions``: RMR's transaction ids are recorded.
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


class SetFlow(msgspec.Struct, tag=True, frozen=True):
    """To core, workers and recorder: the flow log from now on."""

    flow: FlowSetup
