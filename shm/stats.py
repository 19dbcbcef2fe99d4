"""Names of the numbers in a statistics page (stats.h): one place for writers, readers and documentation.

Every process writes its own page only. ``COUNTERS`` maps a name to (index, kind, meaning); kinds are
``counter`` (only grows) and ``gauge``.
"""

from typing import Final

from shm.native import BUCKET_FLOORS, StatsPage

COUNTERS: Final[dict[str, tuple[int, str, str]]] = {
    # any process
    "loops": (0, "counter", "turns of the main loop"),
    "sleeps": (1, "counter", "times the loop blocked"),
    "longest_turn_ns": (2, "gauge", "longest loop turn since the start, nanoseconds"),
    "failures": (3, "counter", "exceptions that nobody foresaw"),
    # workers
    "connections": (8, "gauge", "open connections"),
    "connections_accepted": (9, "counter", "connections accepted"),
    "connections_failed": (10, "counter", "connections closed for garbage, a protocol error or a timeout"),
    "links": (11, "gauge", "attached links"),
    "bytes_in": (12, "counter", "bytes read from sockets"),
    "bytes_out": (13, "counter", "bytes written to sockets"),
    "deliveries_in": (14, "counter", "deliveries received"),
    "deliveries_out": (15, "counter", "deliveries sent"),
    "decode_errors": (16, "counter", "deliveries rejected because the message was malformed"),
    "aborted_in": (17, "counter", "deliveries aborted by their sender"),
    "pauses": (18, "counter", "times reading stopped because blocks ran low"),
    "paused": (19, "gauge", "1 while reading is stopped because blocks are low"),
    "small_free": (20, "gauge", "free small blocks"),
    "large_free": (21, "gauge", "free large blocks"),
    "dropped_presettled_out": (22, "counter", "presettled deliveries dropped because the receiver was slow"),
    "accepting": (23, "gauge", "1 while the worker takes new connections"),
    "bad_records": (24, "counter", "records from shared memory that made no sense and were dropped"),
    "unsettled": (25, "gauge", "deliveries in and out not yet settled"),
    "links_blocked": (26, "gauge", "receivers' links without credit for more than 10 s"),
    "rmr_frames_in": (27, "counter", "RMR frames received"),
    "rmr_frames_out": (28, "counter", "RMR frames sent"),
    "rmr_bad_length": (29, "counter", "RMR connections closed for a frame of an impossible length"),
    "rmr_bad_header": (
        30,
        "counter",
        "RMR connections closed for a frame with parts that do not fit into it",
    ),
    "rmr_reserved": (31, "counter", "RMR frames of reserved message types, dropped"),
    "rmr_undelivered": (32, "counter", "RMR frames that no receiver accepted"),
    "rmr_unfit": (33, "counter", "messages to RMR endpoints that make no frame, rejected"),
    # core
    "from_containers": (136, "counter", "deliveries from brokers"),
    "to_containers": (137, "counter", "deliveries to brokers"),
    "redirected": (132, "counter", "deliveries sent to a fallback destination"),
    "transit": (133, "counter", "deliveries passed on to other routers"),
    "addresses": (40, "gauge", "addresses known"),
    "forwarded": (41, "counter", "outgoing deliveries made"),
    "received": (42, "counter", "incoming deliveries"),
    "accepted": (43, "counter", "deliveries settled accepted"),
    "rejected": (44, "counter", "deliveries settled rejected"),
    "released": (45, "counter", "deliveries settled released"),
    "modified": (46, "counter", "deliveries settled modified"),
    "presettled": (47, "counter", "presettled deliveries received"),
    "dropped_presettled": (
        48,
        "counter",
        "presettled deliveries without a destination, or copies for a receiver too far behind",
    ),
    "overflow": (49, "gauge", "work records waiting because a worker's ring is full"),
    "stale_records": (50, "counter", "records that named something gone"),
    "workers_reclaimed": (51, "counter", "dead workers whose blocks and links were taken back"),
    "live_deliveries": (52, "gauge", "deliveries in the core's tables"),
    "delayed_1s": (53, "counter", "deliveries settled after more than 1 s, up to 10 s"),
    "delayed_10s": (54, "counter", "deliveries settled after more than 10 s"),
    "connections_admitted": (55, "gauge", "open connections of all workers that count for maxConnections"),
    "deliveries_stuck": (115, "gauge", "deliveries not settled for more than 10 s"),
    "topology_changed": (131, "gauge", "when the network changed last, seconds of CLOCK_MONOTONIC"),
    "ways_changed": (129, "counter", "changes of paths to other routers"),
    # core: route tables
    "keyed": (56, "counter", "messages routed by a route table"),
    "keyed_no_entry": (57, "counter", "messages without an entry in their route table"),
    "keyed_no_endpoint": (58, "counter", "messages with an entry, but nobody at any of its endpoints"),
    "keyed_no_owner": (59, "counter", "messages whose managed entity has no owner"),
    "keyed_refused": (60, "counter", "messages to a route table without a key, or of a reserved type"),
    "tables_installed": (61, "counter", "route tables and MEID maps taken into use"),
    "tables_refused": (62, "counter", "route tables and MEID maps that were refused"),
    "table_entries": (63, "gauge", "entries of all route tables in use"),
    "flow_records": (64, "counter", "records for the flow log"),
    "flow_thinned": (
        160,
        "counter",
        "deliveries not recorded because the recorder was behind: others stand for them",
    ),
    "flow_dropped": (
        65,
        "counter",
        "records for the flow log that had no room because the recorder was behind",
    ),
    # refusals: workers
    "refused_tls": (72, "counter", "connections that failed in the TLS handshake"),
    "refused_authentication": (73, "counter", "connections with a wrong user, password or mechanism"),
    "refused_unprotected": (74, "counter", "connections without the authentication or encryption required"),
    "refused_vhost": (75, "counter", "connections whose vhost, user or host the policy does not know"),
    "refused_sessions": (76, "counter", "sessions beyond the limit of their vhost"),
    "refused_size": (77, "counter", "messages larger than the policy allows"),
    "refused_user_id": (78, "counter", "messages whose user-id is not their connection's"),
    "certificates_loaded": (79, "counter", "times changed certificates were taken into use"),
    "certificates_failed": (80, "counter", "times changed certificates could not be used"),
    "refused_room": (135, "counter", "links beyond the most that a worker can have"),
    # refusals: core
    "refused_connections": (81, "counter", "connections beyond a limit of router, vhost, user or host"),
    "refused_links": (82, "counter", "links beyond the limit of their connection"),
    "refused_addresses": (83, "counter", "links to addresses, or of kinds, that the policy does not allow"),
    "refused_messages": (84, "counter", "anonymous senders' messages to addresses they may not use"),
    "refused_unavailable": (108, "counter", "links to addresses that take none, or to unreachable ones"),
    "refused_roles": (109, "counter", "links for routers on other connections, or the other way round"),
    "refused_termini": (110, "counter", "links that ask for what is not served, such as a transaction"),
    "refused_limits": (130, "counter", "links beyond maxSenders or maxReceivers of their address"),
    "refused_beyond": (114, "counter", "links that a broker refused, or that were lost on the way to it"),
    "refused_requests": (128, "counter", "requests to the management agent that were not served"),
    # authentication services: workers
    "auth_service_accepted": (111, "counter", "clients that an authentication service has let in"),
    "auth_service_refused": (112, "counter", "clients that an authentication service has refused"),
    "auth_service_failed": (113, "counter", "clients refused because no authentication service has decided"),
    # route workers, in the processes where their messages come in
    "route_messages": (85, "counter", "messages that came to route workers"),
    "route_steps": (86, "counter", "route workers that messages came to, added up over messages"),
    "route_copies": (87, "counter", "copies that tees have sent"),
    "route_copies_lost": (88, "counter", "copies that tees could not send"),
    "route_refused_route": (89, "counter", "messages refused for a route that makes no sense"),
    "route_refused_decode": (90, "counter", "messages refused for malformed annotations or wrapped messages"),
    "route_refused_hops": (91, "counter", "messages refused after too many workers"),
    "route_refused_length": (92, "counter", "messages refused for too long a route or address"),
    "route_refused_nesting": (93, "counter", "messages refused for too many wrappers"),
    "route_refused_metadata": (94, "counter", "messages refused for too much metadata"),
    "route_refused_size": (95, "counter", "messages too long for a worker that needs the whole of them"),
    "route_refused_access": (96, "counter", "messages refused where their sender may not send"),
    "route_refused_form": (97, "counter", "messages that a worker's format cannot hold"),
    "route_refused_reply": (150, "counter", "replies refused because their return route is not complete"),
    "ockam_frames_in": (151, "counter", "Ockam frames received"),
    "ockam_frames_out": (152, "counter", "Ockam frames sent"),
    "ockam_bad_length": (153, "counter", "Ockam connections closed for a frame longer than maxFrameSize"),
    "ockam_bad_frame": (154, "counter", "Ockam connections closed for a frame that makes no sense"),
    "ockam_heartbeats": (155, "counter", "Ockam frames without an onward route, which lead nowhere"),
    "ockam_refused": (156, "counter", "Ockam frames refused: the reason is among those of source routes"),
    "ockam_undelivered": (157, "counter", "Ockam frames that no receiver accepted"),
    "ockam_unfit": (158, "counter", "messages to Ockam nodes that make no frame, rejected"),
    "route_refused_transform": (159, "counter", "messages refused because a transform failed"),
    # core: route tables, with Route Managers and applications
    "table_requests_sent": (121, "counter", "requests for a route table sent to Route Managers"),
    "table_requests": (122, "counter", "requests for a route table by applications"),
    "table_acks": (123, "counter", "route tables and MEID maps that applications have acknowledged"),
    "table_nacks": (124, "counter", "route tables and MEID maps that applications have refused"),
    "table_acks_late": (125, "counter", "route tables and MEID maps not acknowledged in time"),
    "table_applications": (126, "gauge", "applications that this router is the Route Manager of"),
    "table_applications_ok": (127, "gauge", "applications of this Route Manager that run the table in use"),
    # the recorder's
    "flow_rows": (100, "counter", "rows in complete files of the flow log"),
    "flow_files": (101, "counter", "complete files of the flow log"),
    "flow_bytes": (102, "counter", "bytes of complete files of the flow log"),
    "flow_lost_no_space": (103, "counter", "records of the flow log lost because its disk was full"),
    "flow_lost_io": (104, "counter", "records of the flow log lost because its files could not be written"),
    "flow_errors": (105, "counter", "times the flow log's files could not be written or looked after"),
    "flow_deleted": (106, "counter", "files of the flow log deleted as configured"),
    "flow_compacted": (107, "counter", "files of the flow log put together by hour"),
    "flow_recovered": (172, "counter", "records of the flow log that a killed recorder left in its spool"),
    "flow_doubted": (171, "gauge", "seconds of a step of the clock that the flow log does not believe yet"),
    # the supervisor's
    "config_taken": (180, "gauge", "1 if the last reload of the configuration was taken over, 0 if refused"),
    "config_time": (181, "gauge", "when a configuration was last taken over, seconds of CLOCK_MONOTONIC"),
    "certificate_expiry": (120, "gauge", "when the first certificate expires, seconds since 1970"),
}

HISTOGRAMS: Final[dict[str, tuple[int, str]]] = {
    "delivery_latency_ns": (0, "from arrival to settlement, nanoseconds"),
    "message_bytes": (1, "size of messages, bytes"),
}


def own(page: StatsPage, pid: int, generation: int) -> None:
    """Take a page over from the process that had its place before: counters go on, gauges begin at 0."""
    for index, kind, _ in COUNTERS.values():
        if kind == "gauge":
            page.set(index, 0)
    page.own(pid, generation)


def read(page: StatsPage) -> dict[str, int]:
    """All counters and gauges of a page by name."""
    return {name: page.get(index) for name, (index, _, _) in COUNTERS.items()}


def quantile(page: StatsPage, name: str, fraction: float) -> int:
    """The value below which a fraction of the values lies, rounded down by up to 25 %; 0 without any."""
    _, counts = page.histogram(HISTOGRAMS[name][0])
    rank = fraction * sum(counts)
    seen = 0
    for floor, count in zip(BUCKET_FLOORS, counts, strict=True):
        seen += count
        if count and seen >= rank:
            return floor
    return 0
