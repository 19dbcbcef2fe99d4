"""The schema of the flow log, `routerd.flow.v1`, as data that writer, readers and documentation share.

One row is one delivery that left this router (`delivery`), or a message without a receiver (`drop`).
Integers are signed. Durations end in ``_ns`` and are nanoseconds, sizes end in ``_bytes``, times of day are
microseconds of UTC. New columns are nullable and come last, so a reader of this version reads all earlier
files. A sum over rows multiplies by ``sample_weight``.

A file's folder is the UTC hour in which the file was begun:

    DIRECTORY/raw/date=YYYY-MM-DD/hour=HH/ROUTER-WORKER-BOOT-SEQ.parquet

``raw`` is append-only: a rename makes a complete file appear there, and no file changes afterwards. The name
of an unfinished file begins with a dot and ends in ``.tmp``. Readers skip names that begin with a dot or an
underscore. ``compact`` holds the rows of closed hours in fewer files with the same layout.
"""

import hashlib
import re
from datetime import datetime
from typing import Final, NamedTuple

VERSION: Final = "routerd.flow.v1"


class Column(NamedTuple):
    """One column of a type of `shm.contract.flow_log.arrow`; `meaning` says what it holds and when it is null."""

    name: str
    type: str
    nullable: bool
    unit: str  # may be empty
    meaning: str


KINDS: Final = ("delivery", "flow", "drop")
LINK_KINDS: Final = ("normal", "inter_router", "edge", "route_container", "local")
ROUTER_KINDS: Final = ("inter_router", "edge")  # those with a router at the other end
ADDRESS_CLASSES: Final = ("mc", "uc", "balanced", "anycast", "link")
OUTCOMES: Final = (
    "accepted", "rejected", "released", "modified", "presettled", "undeliverable", "aborted", "dropped",
)  # fmt: skip

ROUTE_STATES: Final = ("complete", "partial", "none")

# Name, type (`?`: it may be null), unit if there is one, and meaning.
_COLUMNS: Final = """\
kind dictionary: `delivery`: one copy of a message, to one link. `drop`: a message that went to no link.
  `flow`: an aggregate; this router writes none
ts timestamp [µs since 1970, UTC]: when the first byte of the message came to this router
router_id dictionary: `id` of the router that wrote the row
worker_id int16: worker at which the message came in
seq int64: number of the row within its `router_id`, `boot_id` and `worker_id`, from 1; a number missing
  between two others is a lost row; nothing is known of numbers after the last one
boot_id dictionary: life of the router's core; every restart begins another one
ingress_conn_id int64: connection it came on, as management calls it; 0: unknown
ingress_link_id int64: link it came on, unique within `boot_id`; 0: unknown
egress_conn_id int64?: connection it went to; null where it went to none
egress_link_id int64?: link it went to; null where it went to none
ingress_kind dictionary?: `normal`: a client. `inter_router`: a router. `edge`: an edge router, or from one to
  its interior router. `route_container`: a broker. `local`: this router itself
egress_kind dictionary?: kind of the connection it went to, with the words of `ingress_kind`; null where it
  went to none
peer_container dictionary?: container-id of the receiver, or for a `drop` of the sender; null where the name
  is not known any more
address dictionary?: address to which the message was sent; null: it named none, no UTF-8, or over 4,096 octets
address_class dictionary?: treatment: `mc` multicast, `anycast` closest, `balanced`, `uc` to one named
  receiver by a route, `link` by a link route
priority int8 [0 to 9]: priority it was forwarded with
mtype int32: message type of a route table's message; -1: none
sub_id int32: subscription id of a route table's message; -1: none
meid dictionary?: managed entity id of a route table's message
xact_id binary?: transaction id of an RMR message, without trailing zeros; null unless `transactions` of the
  flowLog is on
msg_id_hash int64?: hash of the message-id, the same in every router; null: the message has none
fragment_count int32?: pieces in which the message was passed on: 1 where it was whole; a piece may be several
  transfer frames
size_bytes int64 [bytes]: size of all sections of the message, as far as it came in
body_bytes int64? [bytes]: size of body and footer; null where the body had not begun in the first piece
n_deliveries int64: deliveries that the row stands for: 1 unless `kind` is `flow`
latency_ns int64? [ns]: from the message's first byte until its last one was given to the receiver's
  connection; null where that did not happen
settle_ns int64? [ns]: from the message's first byte until the outcome was known; null where nobody settled it
queue_ns int64? [ns]: from the message's first byte until its first one was given to the receiver's
  connection; null where that did not happen
credit_wait_ns int64? [ns]: time within `queue_ns` in which the receiver's link had no credit; null where it
  is not known
outcome dictionary: outcome: the receiver's state, or `presettled`: none was asked for; `undeliverable`: no
  receiver; `aborted`: the sender aborted it; `dropped`: presettled, and the receiver too far behind, or gone
error_type dictionary?: condition of the error with which it was rejected
settled bool: whether the message was sent settled
redelivery int16?: delivery-count of its header, at most 32767; null for `address_class` `link`
hops int16?: routers that the message had passed before this one; null as `path` on a link route's link
path_id int32?: number of `path` within `boot_id`; null where `path` is null
path dictionary?: routers that the message passed, this one last: `R1>R2>R3`; null where no longer known, and
  where it came from another router over a link route, which carries no path
trace_id trace?: trace-id of a `traceparent` (W3C) among its application properties or message annotations
span_id span?: parent-id of that `traceparent`
end_reason dictionary?: why an aggregate ended; only for `flow`
sample_weight int32: deliveries that a recorded one stands for: N where 1 of N is recorded, more while the
  recorder is behind
lat_hist histogram?: latencies of an aggregate by logarithmic bucket; only for `flow`
onward_route dictionary?: onward route when the message left this router's route workers: addresses still to
  visit, `A=>2#B`
return_route dictionary?: return route of a source route: addresses that a reply would visit
message_number int64?: number that all copies of a message share, and no other message within `boot_id` has
by_meid bool?: whether a route table chose its receiver by the owner of `meid`; null where there is no `mtype`
ingress_container dictionary?: container-id of the connection it came on: of the sender, or of the router before this
  one; null where it is not known any more
ingress_user dictionary?: user as whom that connection logged in; null: nobody did, or `clients` of the flowLog is off
ingress_host dictionary?: IP address of that connection's peer; null: it is unknown, or `clients` of the flowLog is off
egress_user dictionary?: user as whom the connection it went to logged in, null as `ingress_user`
egress_host dictionary?: IP address of the peer of the connection it went to, null as `ingress_host`
further_copy bool?: whether an earlier row is of the same message, of which this row has another copy: a message counts
  once where this is false
route_state dictionary?: state of `return_route`: `complete`, `partial` or `none`; null where the message does not say,
  as without a source route, or before the first route worker
"""
COLUMNS: Final = tuple(
    Column(name, kind, bool(null), unit or "", " ".join(meaning.split()))
    for name, kind, null, unit, meaning in re.findall(
        r"^(\w+) (\w+)(\??)(?: \[(.+?)\])?: (.+(?:\n .+)*)", _COLUMNS, re.MULTILINE
    )
)

METADATA: Final[dict[str, str]] = {
    "routerd.flow.schema": "name and version of the schema: `routerd.flow.v1`",
    "routerd.flow.router": "`id` of the router",
    "routerd.flow.boot": "`boot_id` of all rows",
    "routerd.flow.sequences": 'JSON: by worker, first and last `seq` of the file, `{"0": [1, 250]}`',
    "routerd.flow.dropped": "records that had no room in the ring since the core started",
    "routerd.flow.sampling": "`sampling` of the flowLog when the file was begun",
    "routerd.flow.lives": "only in `compact`, in place of the four above: JSON by `boot_id` what the files "
    "said whose rows it holds, and by worker the ranges of `seq` that are there as first, last and how many: "
    '`{"BOOT": {"sequences": {"0": [[1, 250, 250], [271, 300, 30]]}, "dropped": 20, "sampling": [1]}}`',
    "routerd.flow.sources": "only in `compact`: JSON, the names of these files in `raw`",
}
"""Key-value metadata of a file."""

RAW: Final = "raw"
COMPACT: Final = "compact"
ALL_WORKERS: Final = "all"
"""The WORKER part of the name of a file with the rows of every worker."""

_FIT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]*")  # readers pass over names that begin with _ or .
_UNFIT = re.compile(r"[^A-Za-z0-9_.]")


def _name(router: str) -> str:
    """Return what stands for a router's id in names of files, and for no other id.

    An id that cannot be a part of a name has `_` in place of other characters, and `~` and a digest of the id at its
    end.
    """
    if _FIT.fullmatch(router):
        return router
    digest = hashlib.blake2b(router.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{_UNFIT.sub('_', router).lstrip('_.')}~{digest}"


def former_name(router: str) -> str:
    """Return what stood for a router's id, and for others, in names of an early version."""
    return _UNFIT.sub("_", router)


def today_name(name: str, router: str) -> str:
    """Return the name of today of a router's file, which may have a former one."""
    return re.sub(rf"^(\.?){re.escape(former_name(router))}-", rf"\g<1>{_name(router)}-", name)


def file_name(router: str, boot: str, number: int, worker: str = ALL_WORKERS) -> str:
    """Return the name of a file of a router."""
    return f"{_name(router)}-{worker}-{boot}-{number:06d}.parquet"


def folder(begun: datetime) -> str:
    """Return the folder, within `raw` or `compact`, of a file begun at ``begun`` (UTC)."""
    return f"date={begun:%Y-%m-%d}/hour={begun:%H}"


def manifest_name(router: str) -> str:
    """Return the name of the file in `compact` that lists a router's compacted files as JSON:

    ``{"schema": VERSION, "router": ID, "hours": {"date=…/hour=…": {"files": […], "sources": […]}}}``

    ``files`` are names in `compact`, ``sources`` are the names in `raw` of the files whose rows they hold.
    """
    return f"_manifest-{_name(router)}.json"


def clock_name(router: str) -> str:
    """Return the name of the file, next to `raw` and `compact`, in which a recorder keeps how late it was."""
    return f"_clock-{_name(router)}.json"
