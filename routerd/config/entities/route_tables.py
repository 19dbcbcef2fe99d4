"""The routeTable entity (docs/route-tables.md)."""

import os
from typing import Annotated, Literal

from routerd.config.entities.attribute import Entity, State, about

MAX_FRAME = 1 << 30
SOURCE_LENGTH = 63  # octets of a source, host:port, in RMR's header
HOST_LENGTH = SOURCE_LENGTH - len(":65535")
LONGEST_ADDRESS = 877  # octets: workers have room for it with the longest router id and a connection's number

STATE = "STATE_DIRECTORY"  # systemd.exec(5), StateDirectory=


class RouteTable(Entity, frozen=True, kw_only=True, tag="routeTable"):
    """A routeTable says where messages with a message type, a subscription id and an MEID go."""

    address: (
        Annotated[str, about("Address to which senders send for this table, at most 877 octets.", default="name")]
        | None
    ) = None
    seed: Annotated[str, about(
        "File with the first table and MEID map.", kind="path",
        default="RMR_SEED_RT of the environment for the first table, else none", update=True
    )] | None = None  # fmt: skip
    manager: Annotated[str, about(
        "host:port of the Route Manager to ask for tables.",
        default="RMR_RTG_SVC of the environment for the first table, else none", update=True
    )] | None = None  # fmt: skip
    serve: Annotated[bool, about("Whether this router is the Route Manager of RMR applications.", update=True)] = False
    served_as: Annotated[str, about(
        "host:port in the applications' RMR_RTG_SVC, to which they send acknowledgements.",
        default="none: they come over the connection of the table", update=True)] | None = None  # fmt: skip
    serve_to: Annotated[str, about(
        "Addresses and networks whose applications may ask for tables, separated by commas.",
        default="all but those of the public internet", update=True)] | None = None  # fmt: skip
    max_applications: Annotated[int, about(
        "Most applications that may ask for tables.", ge=1, le=10_000, update=True)] = 1000  # fmt: skip
    max_applications_per_host: Annotated[
        int, about("Most applications of one host that may ask for tables.", ge=1, le=10_000, update=True)
    ] = 100
    dial_back: Annotated[Literal["address", "name", "none"], about(
        "Where the router reconnects to an application: the address from which it asked, the host that it "
        "names, which may be any, or nowhere.", update=True)] = "address"  # fmt: skip
    push_to: Annotated[str, about(
        "Control ports, host:port, of applications that do not ask, separated by commas.", update=True
    )] | None = None  # fmt: skip
    applications: Annotated[str, about(
        "File in which the router remembers applications for its next start.", kind="path",
        default="NAME.applications in the folder STATE_DIRECTORY of the environment, else one in shared "
                "memory, which ends with the router", update=True)] | None = None  # fmt: skip
    stash: Annotated[str, about(
        "File in which the router keeps the table in use, and the MEID map, for its next start.", kind="path",
        default="RMR_STASH_RT of the environment for the first table, else NAME.stash in the folder "
                "STATE_DIRECTORY of the environment, else one in shared memory, which ends with the router",
        update=True)] | None = None  # fmt: skip
    push_from: Annotated[str, about(
        "Addresses and networks that may send tables over RMR, separated by commas.",
        default="none but the manager's", update=True)] | None = None  # fmt: skip
    request_interval: Annotated[int, about(
        "Seconds between requests to the manager.", ge=1, le=300,
        default="RMR_RTREQ_FREQ of the environment for the first table, else 5", update=True
    )] | None = None  # fmt: skip
    mode: Annotated[Literal["strict", "compat"], about(
        "How a table is read: strict refuses anything irregular, compat reads as the RMR library does.",
        update=True)] = "strict"  # fmt: skip
    skip_dead: Annotated[bool, about("Whether members of a group without a connection are skipped.", update=True)] = (
        True
    )
    connect: Annotated[
        bool, about("Whether the router connects to endpoints for which no AMQP client receives.", update=True)
    ] = True
    reply: Annotated[Literal["proxied", "transparent", "sameConnection"], about(
        "Way of replies to RMR messages: through this router, or directly to their senders.", update=True
    )] = "proxied"  # fmt: skip
    max_frame_size: Annotated[int, about(
        "Longest RMR frame, in octets; a longer one ends its connection.", ge=1024, le=MAX_FRAME, update=True
    )] = 16 << 20  # fmt: skip
    pushers: Annotated[
        str, about("Users that may push tables, separated by commas; `*`: all.", default="all", update=True)
    ] = "*"


class RouteTableState(State, frozen=True, kw_only=True):
    table_id: Annotated[str, about("Id of the table in use.")] | None = None
    map_id: Annotated[str, about("Id of the last MEID map taken over.")] | None = None
    origin: Annotated[str, about("Where the table in use came from.")] | None = None
    installed: Annotated[int, about("When it was taken into use, seconds since 1970; 0: never.")] = 0
    entry_count: Annotated[int, about("Entries in use.")] = 0
    endpoint_count: Annotated[int, about("Endpoints of these entries, and owners of managed entities.")] = 0
    live_endpoint_count: Annotated[int, about("Endpoints that somebody is connected to.")] = 0
    meid_count: Annotated[int, about("Managed entities with an owner.")] = 0
    refused_count: Annotated[int, about("Tables and maps that were not taken over.")] = 0
    last_error: Annotated[str, about("Why the last one was not.")] | None = None
    routed_count: Annotated[int, about("Messages routed.")] = 0
    no_entry_count: Annotated[int, about("Messages that no entry is for.")] = 0
    no_endpoint_count: Annotated[int, about("Messages with an entry but no endpoint.")] = 0
    no_owner_count: Annotated[int, about("Messages whose managed entity has no owner.")] = 0
    refused_message_count: Annotated[int, about("Messages without a key, or of a reserved type.")] = 0


def state_file(name: str) -> str:
    """Return a file in the state directory for the next start; empty without such a directory."""
    folder = os.environ.get(STATE, "").partition(":")[0]
    return os.path.join(folder, name.replace("/", "_")) if folder else ""
