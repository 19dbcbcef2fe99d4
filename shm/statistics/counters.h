/* Counters, gauges and histograms of a statistics page (stats.h).  One line defines the number for C, the name for
 * Python (stats.py) and the sentence for the metrics page (routerd/exporter/catalogue.py renames some metrics).
 *
 * A name keeps its place, because a restarted process continues the counters of its predecessor.  The exporter shows a
 * number from the start for the processes that write it: WORKER, CORE, RECORDER, SUPERVISOR; ROUTING: workers and core;
 * ANY: these and the recorder; WHEN_SET: none before it is set.
 */
#ifndef ROUTERD_SHM_COUNTERS_H
#define ROUTERD_SHM_COUNTERS_H

#include <stdint.h>

#define COUNTERS(X) /* name, place, kind, who writes it, sentence */ \
    /* any process */ \
    X(LOOPS, 0, COUNTER, ANY, "Turns of the main loop") \
    X(SLEEPS, 1, COUNTER, ANY, "Times the main loop found nothing to do and blocked") \
    X(LONGEST_TURN_NS, 2, GAUGE, ANY, "Longest turn of the main loop since its start") \
    X(FAILURES, 3, COUNTER, ANY, "Exceptions that nobody foresaw; the log has their tracebacks") \
    /* workers: connections and deliveries */ \
    X(CONNECTIONS, 8, GAUGE, WORKER, "Open connections") \
    X(CONNECTIONS_ACCEPTED, 9, COUNTER, WORKER, "Connections accepted") \
    X(CONNECTIONS_FAILED, 10, COUNTER, WORKER, \
      "Connections that came in and ended by garbage, a protocol error or a timeout") \
    X(LINKS, 11, GAUGE, WORKER, "Attached links") \
    X(BYTES_IN, 12, COUNTER, WORKER, "Bytes read from connections") \
    X(BYTES_OUT, 13, COUNTER, WORKER, "Bytes written to connections") \
    X(DELIVERIES_IN, 14, COUNTER, WORKER, "Deliveries that arrived on connections") \
    X(DELIVERIES_OUT, 15, COUNTER, WORKER, "Deliveries sent on connections") \
    X(DECODE_ERRORS, 16, COUNTER, WORKER, "Deliveries rejected because the message was malformed") \
    X(ABORTED_IN, 17, COUNTER, WORKER, "Deliveries that their sender aborted") \
    X(PAUSES, 18, COUNTER, WORKER, "Times reading from connections stopped because blocks ran low") \
    X(PAUSED, 19, GAUGE, WORKER, "1 while reading from connections is stopped because blocks are low") \
    X(SMALL_FREE, 20, GAUGE, WORKER, "Free small blocks") \
    X(LARGE_FREE, 21, GAUGE, WORKER, "Free large blocks") \
    X(ACCEPTING, 23, GAUGE, WORKER, "1 while the worker takes new connections") \
    X(BAD_RECORDS, 24, COUNTER, ROUTING, "Records from shared memory that made no sense and were dropped") \
    X(UNSETTLED, 25, GAUGE, WORKER, "Deliveries in and out that are not settled yet") \
    X(LINKS_BLOCKED, 26, GAUGE, WORKER, "Receivers' links without credit for more than 10 s") \
    /* workers: RMR */ \
    X(RMR_FRAMES_IN, 27, COUNTER, WORKER, "RMR frames received") \
    X(RMR_FRAMES_OUT, 28, COUNTER, WORKER, "RMR frames sent") \
    X(RMR_BAD_LENGTH, 29, COUNTER, WORKER, "RMR connections closed for a frame of an impossible length") \
    X(RMR_BAD_HEADER, 30, COUNTER, WORKER, "RMR connections closed for a frame with parts that do not fit into it") \
    X(RMR_RESERVED, 31, COUNTER, WORKER, "RMR frames of reserved message types, dropped") \
    X(RMR_UNDELIVERED, 32, COUNTER, WORKER, "RMR frames that no receiver accepted") \
    X(RMR_UNFIT, 33, COUNTER, WORKER, "Deliveries to RMR endpoints rejected because they make no frame") \
    /* the core */ \
    X(FROM_CONTAINERS, 136, COUNTER, CORE, "Deliveries from brokers") \
    X(TO_CONTAINERS, 137, COUNTER, CORE, "Deliveries to brokers") \
    X(REDIRECTED, 132, COUNTER, CORE, "Deliveries sent to a fallback destination") \
    X(TRANSIT, 133, COUNTER, CORE, "Deliveries sent to other routers") \
    X(INGRESS, 138, COUNTER, CORE, "Deliveries from clients, and over routed links") \
    X(EGRESS, 139, COUNTER, CORE, "Deliveries sent to clients, counted when they are over") \
    X(FROM_ROUTERS, 140, COUNTER, CORE, "Deliveries from other routers, except over routed links") \
    X(OWN_IN, 141, COUNTER, CORE, "Deliveries that this router made: its messages, and copies of route workers") \
    X(OWN_PRESETTLED, 142, COUNTER, CORE, "Presettled deliveries of routers themselves") \
    X(OWN_OUT, 143, COUNTER, CORE, "Deliveries to this router itself, and what it says to other routers") \
    X(DROPPED_SLOW, 144, COUNTER, CORE, "Presettled copies dropped because their receiver was slow") \
    X(DROPPED_BEHIND, 145, COUNTER, CORE, "Presettled copies not made because their receiver was far behind") \
    X(DROPPED_GONE, 146, COUNTER, CORE, "Presettled copies not sent because their receiver had gone") \
    X(UNSENT, 147, COUNTER, CORE, "Copies not sent of unsettled or aborted deliveries") \
    X(IN_DOUBT, 149, COUNTER, CORE, "Copies that a worker had when it or the core died, and may have sent") \
    X(UNADDRESSED, 161, COUNTER, CORE, "Copies for other routers not made: no room for their addresses") \
    X(NO_OUTCOME, 148, COUNTER, CORE, "Unsettled deliveries that ended without one of the four outcomes") \
    X(ADDRESSES, 40, GAUGE, CORE, "Addresses known") \
    X(FORWARDED, 41, COUNTER, CORE, "Copies of deliveries that the core passed on to receivers") \
    X(RECEIVED, 42, COUNTER, CORE, "Deliveries that the core was given to route") \
    X(ACCEPTED, 43, COUNTER, CORE, "Deliveries settled accepted") \
    X(REJECTED, 44, COUNTER, CORE, "Deliveries settled rejected") \
    X(RELEASED, 45, COUNTER, CORE, "Deliveries settled released") \
    X(MODIFIED, 46, COUNTER, CORE, "Deliveries settled modified") \
    X(PRESETTLED, 47, COUNTER, CORE, "Presettled deliveries that the core was given to route") \
    X(DROPPED_PRESETTLED, 48, COUNTER, CORE, \
      "Presettled deliveries without a destination") \
    X(OVERFLOW, 49, GAUGE, CORE, "Work waiting because a worker's ring is full") \
    X(STALE_RECORDS, 50, COUNTER, CORE, "Records that named something gone") \
    X(WORKERS_RECLAIMED, 51, COUNTER, CORE, "Dead workers whose blocks and links were taken back") \
    X(LIVE_DELIVERIES, 52, GAUGE, CORE, "Deliveries in the core's tables") \
    X(DELAYED_1S, 53, COUNTER, CORE, "Deliveries settled after more than 1 s, up to 10 s") \
    X(DELAYED_10S, 54, COUNTER, CORE, "Deliveries settled after more than 10 s") \
    X(CONNECTIONS_ADMITTED, 55, GAUGE, CORE, "Connections that count for maxConnections") \
    X(DELIVERIES_STUCK, 115, GAUGE, CORE, "Deliveries not settled for 10 s, each once, 1,000 at most of a link") \
    X(TOPOLOGY_CHANGED, 131, GAUGE, CORE, "When the network of routers changed last, in seconds since 1970; 0: never") \
    X(WAYS_CHANGED, 129, COUNTER, CORE, "Changes of paths to other routers") \
    /* the core: route tables */ \
    X(KEYED, 56, COUNTER, CORE, "Messages routed by a route table") \
    X(KEYED_NO_ENTRY, 57, COUNTER, CORE, "Messages without an entry in their route table") \
    X(KEYED_NO_ENDPOINT, 58, COUNTER, CORE, "Messages with an entry, but nobody at any of its endpoints") \
    X(KEYED_NO_OWNER, 59, COUNTER, CORE, "Messages whose managed entity has no owner") \
    X(KEYED_REFUSED, 60, COUNTER, CORE, "Messages to a route table without a key, or of a reserved type") \
    X(TABLES_INSTALLED, 61, COUNTER, CORE, "Route tables and MEID maps taken into use") \
    X(TABLES_REFUSED, 62, COUNTER, CORE, "Route tables and MEID maps that were refused") \
    X(TABLE_ENTRIES, 63, GAUGE, CORE, "Entries of all route tables in use") \
    /* the core: flow log */ \
    X(FLOW_RECORDS, 64, COUNTER, CORE, "Records of deliveries made for the flow log") \
    X(FLOW_THINNED, 160, COUNTER, CORE, "Deliveries that others stand for while the recorder is behind") \
    X(FLOW_DROPPED, 65, COUNTER, CORE, "Records for the flow log that had no room because the recorder was behind") \
    /* workers: refusals */ \
    X(REFUSED_TLS, 72, COUNTER, WORKER, "Connections that failed in the TLS handshake") \
    X(REFUSED_AUTHENTICATION, 73, COUNTER, WORKER, "Connections with a wrong user, password or mechanism") \
    X(REFUSED_UNPROTECTED, 74, COUNTER, WORKER, "Connections without the authentication or encryption required") \
    X(REFUSED_VHOST, 75, COUNTER, WORKER, "Connections whose vhost, user or host the policy does not know") \
    X(REFUSED_SESSIONS, 76, COUNTER, WORKER, "Sessions beyond the limit of their vhost") \
    X(REFUSED_SIZE, 77, COUNTER, WORKER, "Messages larger than the policy allows") \
    X(REFUSED_USER_ID, 78, COUNTER, WORKER, "Messages whose user-id is not their connection's") \
    X(CERTIFICATES_LOADED, 79, COUNTER, WORKER, "Times changed certificates were taken into use") \
    X(CERTIFICATES_FAILED, 80, COUNTER, WORKER, "Times changed certificates could not be used") \
    X(REFUSED_ROOM, 135, COUNTER, WORKER, "Links beyond the most that a worker can have") \
    /* the core: refusals */ \
    X(REFUSED_CONNECTIONS, 81, COUNTER, CORE, "Connections beyond a limit of router, vhost, user or host") \
    X(REFUSED_LINKS, 82, COUNTER, CORE, "Links beyond the limit of their connection") \
    X(REFUSED_ADDRESSES, 83, COUNTER, CORE, "Links to addresses, or of kinds, that the policy does not allow") \
    X(REFUSED_MESSAGES, 84, COUNTER, CORE, "Anonymous senders' messages to addresses they may not use") \
    X(REFUSED_UNAVAILABLE, 108, COUNTER, CORE, "Links to addresses that take none, or to unreachable ones") \
    X(REFUSED_ROLES, 109, COUNTER, CORE, "Links for routers on other connections, or the other way round") \
    X(REFUSED_TERMINI, 110, COUNTER, CORE, "Links that ask for what is not served, such as a transaction") \
    X(REFUSED_LIMITS, 130, COUNTER, CORE, "Links beyond maxSenders or maxReceivers of their address") \
    X(REFUSED_BEYOND, 114, COUNTER, CORE, "Links that a broker refused, or that were lost on the way to it") \
    X(REFUSED_REQUESTS, 128, COUNTER, CORE, "Requests to the management agent that were not served") \
    /* workers: authentication services */ \
    X(AUTH_SERVICE_ACCEPTED, 111, COUNTER, WORKER, "Clients that an authentication service has let in") \
    X(AUTH_SERVICE_REFUSED, 112, COUNTER, WORKER, "Clients that an authentication service has refused") \
    X(AUTH_SERVICE_FAILED, 113, COUNTER, WORKER, "Clients refused because no authentication service has decided") \
    /* route workers, in the processes where their messages come in */ \
    X(ROUTE_MESSAGES, 85, COUNTER, WORKER, "Messages that came to route workers") \
    X(ROUTE_STEPS, 86, COUNTER, WORKER, "Route workers that messages came to, added up over messages") \
    X(ROUTE_COPIES, 87, COUNTER, WORKER, "Copies that tees have sent") \
    X(ROUTE_COPIES_LOST, 88, COUNTER, WORKER, "Copies that tees could not send") \
    X(ROUTE_REFUSED_ROUTE, 89, COUNTER, WORKER, "Messages refused for a route that makes no sense") \
    X(ROUTE_REFUSED_DECODE, 90, COUNTER, WORKER, "Messages refused for malformed annotations or wrapped messages") \
    X(ROUTE_REFUSED_HOPS, 91, COUNTER, WORKER, "Messages refused after too many workers") \
    X(ROUTE_REFUSED_LENGTH, 92, COUNTER, WORKER, "Messages refused for too long a route or address") \
    X(ROUTE_REFUSED_NESTING, 93, COUNTER, WORKER, "Messages refused for too many wrappers") \
    X(ROUTE_REFUSED_METADATA, 94, COUNTER, WORKER, "Messages refused for too much metadata") \
    X(ROUTE_REFUSED_SIZE, 95, COUNTER, WORKER, "Messages too long for a worker that needs the whole of them") \
    X(ROUTE_REFUSED_ACCESS, 96, COUNTER, WORKER, "Messages refused where their sender may not send") \
    X(ROUTE_REFUSED_FORM, 97, COUNTER, WORKER, "Messages that a worker's format cannot hold") \
    X(ROUTE_REFUSED_REPLY, 150, COUNTER, WORKER, "Replies refused because their return route is not complete") \
    /* workers: Ockam */ \
    X(OCKAM_FRAMES_IN, 151, COUNTER, WORKER, "Ockam frames received") \
    X(OCKAM_FRAMES_OUT, 152, COUNTER, WORKER, "Ockam frames sent") \
    X(OCKAM_BAD_LENGTH, 153, COUNTER, WORKER, "Ockam connections closed for a frame longer than maxFrameSize") \
    X(OCKAM_BAD_FRAME, 154, COUNTER, WORKER, "Ockam connections closed for a frame that makes no sense") \
    X(OCKAM_HEARTBEATS, 155, COUNTER, WORKER, "Ockam frames without an onward route, which lead nowhere") \
    X(OCKAM_REFUSED, 156, COUNTER, WORKER, "Ockam frames refused: the reason is among those of source routes") \
    X(OCKAM_UNDELIVERED, 157, COUNTER, WORKER, "Ockam frames that no receiver accepted") \
    X(OCKAM_UNFIT, 158, COUNTER, WORKER, "Messages to Ockam nodes that make no frame, rejected") \
    X(ROUTE_REFUSED_TRANSFORM, 159, COUNTER, WORKER, "Messages refused because a transform failed") \
    /* the core: route tables, with Route Managers and applications */ \
    X(TABLE_REQUESTS_SENT, 121, COUNTER, CORE, "Requests for a route table sent to Route Managers") \
    X(TABLE_REQUESTS, 122, COUNTER, CORE, "Requests for a route table by applications") \
    X(TABLE_ACKS, 123, COUNTER, CORE, "Route tables and MEID maps that applications have acknowledged") \
    X(TABLE_NACKS, 124, COUNTER, CORE, "Route tables and MEID maps that applications have refused") \
    X(TABLE_ACKS_LATE, 125, COUNTER, CORE, "Route tables and MEID maps not acknowledged in time") \
    X(TABLE_APPLICATIONS, 126, GAUGE, CORE, "Applications that this router is the Route Manager of") \
    X(TABLE_APPLICATIONS_OK, 127, GAUGE, CORE, "Applications of this Route Manager that run the table in use") \
    /* the recorder */ \
    X(FLOW_ROWS, 100, COUNTER, RECORDER, "Records in complete files of the flow log") \
    X(FLOW_FILES, 101, COUNTER, RECORDER, "Complete files of the flow log") \
    X(FLOW_BYTES, 102, COUNTER, RECORDER, "Bytes of complete files of the flow log") \
    X(FLOW_LOST_NO_SPACE, 103, COUNTER, RECORDER, "Records of the flow log lost because its disk was full") \
    X(FLOW_LOST_IO, 104, COUNTER, RECORDER, "Records of the flow log lost because its files could not be written") \
    X(FLOW_ERRORS, 105, COUNTER, RECORDER, "Times files of the flow log could not be written or kept") \
    X(FLOW_DELETED, 106, COUNTER, RECORDER, "Files of the flow log deleted as configured") \
    X(FLOW_COMPACTED, 107, COUNTER, RECORDER, "Files of the flow log put together by hour") \
    X(FLOW_RECOVERED, 172, COUNTER, RECORDER, "Records that a killed recorder left, in files made by the next one") \
    X(FLOW_DOUBTED, 171, GAUGE, RECORDER, "Step of the time of day, forward or back, while retentionAge ignores it") \
    /* the supervisor */ \
    X(CONFIG_TAKEN, 180, GAUGE, SUPERVISOR, "1 if the last reload was taken over, 0 if it was refused") \
    X(CONFIG_READS, 182, COUNTER, SUPERVISOR, "Times the configuration was read, taken over or not") \
    X(CONFIG_TIME, 181, GAUGE, SUPERVISOR, "When a configuration was last taken over, in seconds since 1970") \
    X(CERTIFICATE_EXPIRY, 120, GAUGE, WHEN_SET, \
      "When the first of the router's certificates expires, in seconds since 1970")

#define HISTOGRAMS(X) \
    X(DELIVERY_LATENCY_NS, 0) /* from arrival to settlement */ \
    X(MESSAGE_BYTES, 1) \
    X(PYTHON_NS, 2) /* while the core forwards nothing */

#define X(name, place, ...) N_##name = place,
enum counter { COUNTERS(X) };
#undef X
#define X(name, place) HIST_##name = place,
enum histogram { HISTOGRAMS(X) };
#undef X

typedef struct { const char *name; uint32_t place; const char *kind, *writers, *text; } counter_line;

#define X(name, place, kind, writers, text) { #name, place, #kind, #writers, text },
static const counter_line counter_lines[] = { COUNTERS(X) };
#undef X
#define X(name, place) { #name, place, "", "", "" },
static const counter_line histogram_lines[] = { HISTOGRAMS(X) };
#undef X
#define COUNTER_LINES (sizeof counter_lines / sizeof *counter_lines)
#define HISTOGRAM_LINES (sizeof histogram_lines / sizeof *histogram_lines)

#endif
