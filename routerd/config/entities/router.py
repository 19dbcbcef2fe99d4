"""The router, log and console entities: the qpid-dispatch 1.19 management schema and extensions.

routerd adds workers, coreCpu, workerCpus, busyPoll, arenaSize, hugePages, linkCapacity (on router),
stopGraceSeconds, flightRecords, flightAddresses, flightDirectory, allowNoListener and format (on log);
unreachableHoldoffSeconds is skupper-router's.
"""

from typing import Annotated, Literal

from msgspec import field

from routerd.config.entities.attribute import Entity, State, about

Distribution = Literal["multicast", "closest", "balanced", "unavailable"]
Module = Literal[
    "ROUTER", "ROUTER_CORE", "ROUTER_HELLO", "ROUTER_LS", "ROUTER_MA", "MESSAGE", "SERVER", "AGENT",
    "AUTHSERVICE", "CONTAINER", "ERROR", "POLICY", "HTTP", "CONN_MGR", "PYTHON", "PROTOCOL", "DEFAULT",
]  # fmt: skip

MAX_WORKERS = 64  # ROUTERD_MAX_WORKERS of the shared-memory layout


class Router(Entity, frozen=True, kw_only=True, tag="router"):
    """The router itself."""

    id: Annotated[str, about(
        "Name of the router and container id on its connections; unique, at most 127 bytes.",
        default="the mode and 15 random characters")] = ""  # fmt: skip
    mode: Annotated[Literal["standalone", "interior", "edge"], about(
        "Whether the router stands alone or joins a network.")] = "standalone"  # fmt: skip
    workers: Annotated[int, about(
        "Worker processes, which own the connections; `auto`: one less than the usable CPUs.", kind="workers",
        old="workerThreads", ge=1, le=MAX_WORKERS, update=True)] = 2  # fmt: skip
    core_cpu: Annotated[int, about("CPU on which the core process runs.", ge=0, le=4095, update=True)] | None = None
    worker_cpus: Annotated[tuple[int, ...], about(
        "CPUs on which the workers run in turn: `2,3` or `2-5`.", kind="cpus", default="any", update=True
    )] = ()  # fmt: skip
    busy_poll: Annotated[int, about(
        "Microseconds for which an idle process polls before it sleeps; costs CPU, saves wake-up latency.",
        ge=0, le=1_000_000)] = 0  # fmt: skip
    arena_size: Annotated[
        int, about("MiB of shared memory in which each worker keeps arriving messages.", ge=4, le=65536)
    ] = 96
    huge_pages: Annotated[bool, about(
        "Whether the router asks for huge pages for the arenas; tuning.md says what the system must grant."
    )] = False  # fmt: skip
    link_capacity: Annotated[int, about(
        "Credit of a sending client per link, where its listener sets none.", ge=1, le=1_000_000, update=True,
        default="250, and up to 1000 for a fast sender")] | None = None  # fmt: skip
    flight_records: Annotated[int, about(
        "Records of the core's latest work that the flight recorder holds, rounded up to a power of two and to at "
        "least 16384; 0: it is off. 64 octets each.", ge=0, le=16_777_216)] = 0  # fmt: skip
    flight_addresses: Annotated[bool, about(
        "Whether the flight recorder keeps addresses as text; it always keeps their hashes.")] = False  # fmt: skip
    flight_directory: Annotated[str, about(
        "Directory where the supervisor writes the flight recorder's records when the core dies; it keeps the last "
        "eight files.",
        kind="path", default="`flight` in the folder STATE_DIRECTORY of the environment, else none"
    )] | None = None  # fmt: skip
    allow_no_listener: Annotated[bool, about(
        "Whether a reload or management may remove the last listener for clients; otherwise that is refused."
    )] = False  # fmt: skip
    stop_grace_seconds: Annotated[int, about(
        "How long a stopping router lets open deliveries settle before it closes connections.", ge=0, le=3,
        update=True)] = 2  # fmt: skip
    default_distribution: Annotated[Distribution, about(
        "Treatment of addresses that no address entity matches.", update=True)] = "balanced"  # fmt: skip
    hello_interval_seconds: Annotated[
        int, about("Seconds between greetings to neighbouring routers.", old="helloInterval", ge=1)
    ] = 1
    hello_max_age_seconds: Annotated[
        int, about("Seconds without a greeting after which a neighbour counts as lost.", old="helloMaxAge", ge=1)
    ] = 3
    ra_interval_seconds: Annotated[
        int, about("Seconds between router advertisements in a stable network.", old="raInterval", ge=1)
    ] = 30
    ra_interval_flux_seconds: Annotated[
        int, about("Seconds between router advertisements while the network changes.", old="raIntervalFlux", ge=1)
    ] = 4
    remote_ls_max_age_seconds: Annotated[int, about(
        "Seconds after which the link state of a silent router is dropped.", old="remoteLsMaxAge", ge=1
    )] = 60  # fmt: skip
    unreachable_holdoff_seconds: Annotated[int, about(
        "Seconds for which the addresses of an unreachable router stay.", ge=0, le=3600)] = 1  # fmt: skip
    debug_dump_file: Annotated[str, about(
        "File for debugging output that does not fit the log.", kind="path", old="debugDump"
    )] | None = None  # fmt: skip
    management_dirs: Annotated[str, about(
        "Directories in which files that management requests name must lie, separated by commas.",
        default="that of the configuration file, /etc/routerd, /var/lib/routerd, /var/log/routerd, as fits "
                "what is done with the file")] | None = None  # fmt: skip
    sasl_config_dir: Annotated[str, about(
        "Directory of the SASL configuration.", kind="path", old="saslConfigPath")] | None = None  # fmt: skip
    sasl_config_name: Annotated[str, about("Name of the SASL configuration, without `.conf`.")] = "qdrouterd"
    allow_resumable_link_route: Annotated[bool, about("Whether link-routed termini may outlive their connection.")] = (
        True
    )
    timestamps_in_utc: Annotated[bool, about("Whether log times are in UTC instead of local time.")] | None = field(
        default=None, name="timestampsInUTC"
    )
    timestamp_format: Annotated[str, about("strftime format of log times.")] | None = None
    allow_unsettled_multicast: Annotated[
        bool, about("Unsettled multicast is always allowed; remove this attribute.", deprecated=True)
    ] = False
    metadata: Annotated[str, about("Free text shown by management tools.")] | None = None


class RouterState(State, frozen=True, kw_only=True):
    area: Annotated[str, about("Area of the router; there is one.")] = "0"
    version: Annotated[str, about("Version of the software.")] = ""
    host_name: Annotated[str, about("Name of the machine.")] = ""
    addr_count: Annotated[int, about("Known addresses.")] = 0
    link_count: Annotated[int, about("Attached links.")] = 0
    blocked_link_count: Annotated[int, about("Links without credit for more than ten seconds.")] = 0
    node_count: Annotated[int, about("Known routers.")] = 0
    link_route_count: Annotated[int, about("Configured link routes.")] = 0
    auto_link_count: Annotated[int, about("Configured auto links.")] = 0
    connection_count: Annotated[int, about("Open connections.")] = 0
    presettled_deliveries: Annotated[int, about("Presettled deliveries.")] = 0
    dropped_presettled_deliveries: Annotated[int, about("Presettled deliveries that were not sent.")] = 0
    accepted_deliveries: Annotated[int, about("Accepted deliveries.")] = 0
    rejected_deliveries: Annotated[int, about("Rejected deliveries.")] = 0
    released_deliveries: Annotated[int, about("Released deliveries.")] = 0
    modified_deliveries: Annotated[int, about("Modified deliveries.")] = 0
    no_outcome_deliveries: Annotated[int, about("Unsettled deliveries that ended without an outcome.")] = 0
    unsent_deliveries: Annotated[int, about("Copies not sent, of unsettled or aborted deliveries.")] = 0
    in_doubt_deliveries: Annotated[int, about("Copies of a process that died, which may have been sent.")] = 0
    deliveries_delayed_1_sec: Annotated[int, about("Deliveries settled after more than a second.")] = 0
    deliveries_delayed_10_sec: Annotated[int, about("Deliveries settled after more than ten seconds.")] = 0
    deliveries_stuck: Annotated[
        int, about("Deliveries unsettled for more than ten seconds, at both ends: those of all links.")
    ] = 0
    deliveries_ingress: Annotated[int, about("Deliveries that entered the network here.")] = 0
    deliveries_egress: Annotated[int, about("Deliveries that left the network here.")] = 0
    deliveries_transit: Annotated[int, about("Deliveries passed from router to router.")] = 0
    deliveries_ingress_route_container: Annotated[int, about("Deliveries from route containers.")] = 0
    deliveries_egress_route_container: Annotated[int, about("Deliveries to route containers.")] = 0
    deliveries_redirected_to_fallback: Annotated[int, about("Deliveries sent to a fallback destination.")] = 0
    uptime_seconds: Annotated[int, about("Seconds since the router started.")] = 0
    memory_usage: Annotated[int, about("Memory of all processes in bytes.")] = 0


class Log(Entity, frozen=True, kw_only=True, tag="log"):
    """A log entity says which messages of one module are logged, and where. DEFAULT supplies the rest."""

    module: Annotated[Module, about("The module; DEFAULT stands for all that have no log entity.")]
    enable: Annotated[str, about(
        "Levels, separated by commas: `info+` is info and all above, `info-` info and all below, `none` is "
        "none.", kind="levels", default="as DEFAULT; there `info+`", update=True)] | None = None  # fmt: skip
    include_timestamp: Annotated[bool, about(
        "Whether lines begin with the time.", old="timestamp",
        default="as DEFAULT; there yes, but no for text in the journal or syslog", update=True
    )] | None = None  # fmt: skip
    include_source: Annotated[bool, about(
        "Whether lines end with the place in the code.", old="source", default="as DEFAULT; there no",
        update=True)] | None = None  # fmt: skip
    output_file: Annotated[str, about(
        "Where lines go: `stderr`, `stdout`, `syslog` or a file, to which they are appended.", kind="path",
        old="output", default="as DEFAULT; there `stderr`", update=True)] | None = None  # fmt: skip
    format: Annotated[Literal["text", "json"], about(
        "Form of a line: text, or an object in JSON.", default="as DEFAULT; there text", update=True
    )] | None = None  # fmt: skip


class Console(Entity, frozen=True, kw_only=True, tag="console"):
    """The console entity starts qdrouterd's former web console; this router ignores it."""

    listener: Annotated[str, about("Name of a listener; remove it.", deprecated=True)] | None = None
    wsport: Annotated[int, about("Port of the websocket proxy; remove it.", ge=0, le=65535, deprecated=True)] = 5673
    proxy: Annotated[str, about("Program of the websocket proxy; remove it.", deprecated=True)] | None = None
    home: Annotated[str, about("Directory of the web pages; remove it.", kind="path", deprecated=True)] | None = None
    args: Annotated[str, about("Arguments of the proxy; remove it.", deprecated=True)] | None = None
