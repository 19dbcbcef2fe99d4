"""The flowLog entity: settings of the flow log (docs/flow-log.md)."""

from typing import Annotated

from routerd.config.entities.attribute import Entity, about


class FlowLog(Entity, frozen=True, kw_only=True, tag="flowLog"):
    """The flowLog writes a row for every delivery into Parquet files: [columns](flow-log.md#columns)."""

    directory: Annotated[str, about(
        "Absolute path of the directory for the files; the router creates it if need be.", kind="path",
        update=True)]  # fmt: skip
    sampling: Annotated[int, about(
        "N, where one of N deliveries is recorded.", ge=1, le=1_000_000, update=True)] = 1  # fmt: skip
    roll_size: Annotated[
        int, about("MiB after which a file is complete and another begins.", ge=1, le=65536, update=True)
    ] = 128
    roll_age: Annotated[
        int, about("Seconds after which a file is complete, however small it is.", ge=1, le=3600, update=True)
    ] = 60
    retention_size: Annotated[int, about(
        "MiB of all files beyond which the oldest are deleted; 0: no limit.", ge=0, le=1 << 30, update=True
    )] = 10240  # fmt: skip
    retention_age: Annotated[
        int, about("Hours after which a file is deleted; 0: never.", ge=0, le=1_000_000, update=True)
    ] = 168
    compaction: Annotated[
        bool, about("Whether the files of past hours are joined in a tree of their own.", update=True)
    ] = True
    raw_age: Annotated[int, about(
        "Hours for which a file stays after its rows are in the compacted tree, for readers that follow the "
        "log.", ge=0, le=1_000_000, update=True)] = 24  # fmt: skip
    transactions: Annotated[bool, about("Whether the transaction ids of RMR messages are recorded.", update=True)] = (
        False
    )
    clients: Annotated[
        bool, about("Whether the users and hosts of senders and receivers are recorded; containers always are.",
                    update=True)
    ] = True  # fmt: skip
