"""The worries: what an operator should look into, as alarms of the live page.

Each rule of docs/alerts.yml has its worry here, with the same bound. A rule looks back over minutes; the page tells
what holds now, and what has happened within the last minute. Restarts alone count over ten minutes in both.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from routerd.exporter.history import RESTART_SECONDS
from routerd.exporter.observer import Observer, State, unhealthy
from routerd.exporter.processes import Process
from shm.contract.numbers import counted, remaining
from shm.contract.roles import Role
from shm.statistics.board import AddressRow, Board

RECENT_SECONDS: Final = 60.0
STANDSTILL_SECONDS: Final = 10.0  # for which an address that gets nowhere is looked at before it is a worry
DAY_SECONDS: Final = 86400.0
UNKNOWN_TO_PAGE: Final = {"RouterUnreachable"}  # the rule is about an exporter that does not answer
_SETTLED: Final = ("accepted", "rejected", "released", "modified", "no_outcome")
_RECENTLY: Final = "within the last minute"


class Sight(NamedTuple):
    """What worries are judged by.

    ``http`` are the open connections of the exporter's own listeners, by name; None: its TLS cannot be used.
    """

    observer: Observer
    states: list[State]
    processes: list[Process]
    board: Board
    http: Mapping[str, int | None]

    def grown(self, *names: str) -> int:
        """Return how much these counters have grown within the last minute."""
        return sum(self.observer.recently(name, RECENT_SECONDS) for name in names)

    def of_supervisor(self, name: str) -> int:
        """Return a number that the supervisor keeps; 0 without its page."""
        return sum(state.page.counters[name] for state in self.states if state.page.process == Role.SUPERVISOR)


class Worry(msgspec.Struct, frozen=True):
    """One worry: the rule of docs/alerts.yml, what it tells now, and the number that both compare with."""

    rule: str
    alarms: Callable[[Sight, float], Iterator[str]]
    bound: float = 0


def alarms(sight: Sight) -> list[str]:
    """Return what an operator should look into now, most urgent first."""
    return [alarm for worry in WORRIES for alarm in worry.alarms(sight, worry.bound)]


# ---- processes and what they need ----


def _down(sight: Sight, _: float) -> Iterator[str]:
    down = unhealthy(sight.states)
    yield from down
    known = " ".join(down)
    yield from (why for why in sight.observer.unready(sight.states) if why.partition(":")[0] not in known)


def _restarted(sight: Sight, most: float) -> Iterator[str]:
    for process in sight.processes:
        if (times := sight.observer.restarts(process.name)) > most:
            within = f"{RESTART_SECONDS / 60:g} minutes"
            yield f"{process.name}: started again {counted(times, 'time')} within the last {within}; the log says why"


def _refused_reload(sight: Sight, _: float) -> Iterator[str]:
    if sight.of_supervisor("config_reads") and not sight.of_supervisor("config_taken"):
        yield "the last reload was refused; the log says why, and the router keeps the configuration that it has"


def _paused(sight: Sight, _: float) -> Iterator[str]:
    for state in sight.states:
        if state.page.counters["paused"]:
            yield f"{state.page.process}: reads nothing until blocks are free; see arenaSize"
    if times := sight.grown("pauses"):
        yield f"reading stopped {counted(times, 'time')} because blocks ran low {_RECENTLY}"


def _low_arena(sight: Sight, least: float) -> Iterator[str]:
    for process in sight.processes:
        if process.arena_fill is not None and process.arena_fill > 1 - least:
            yield f"{process.name}: its arena is {process.arena_fill:.0%} full; see arenaSize"


def _full_ring(sight: Sight, most: float) -> Iterator[str]:
    for state in sight.states:
        if waiting := state.page.counters["overflow"]:
            verb = "waits" if waiting == 1 else "wait"
            yield f"{state.page.process}: {counted(waiting, 'record')} {verb} for a full ring"
    for process in sight.processes:
        if process.ring_fill is not None and process.ring_fill > most:
            yield f"{process.name}: a ring is {process.ring_fill:.0%} full"


def _few_descriptors(sight: Sight, most: float) -> Iterator[str]:
    for process in sight.processes:
        if process.descriptor_fill is not None and process.descriptor_fill > most:
            yield f"{process.name}: {process.descriptor_fill:.0%} of its file descriptors are open; see LimitNOFILE"


def _nonsense(sight: Sight, _: float) -> Iterator[str]:
    if count := sight.grown("bad_records"):
        yield f"{counted(count, 'record')} in shared memory made no sense {_RECENTLY}"


def _unexpected(sight: Sight, _: float) -> Iterator[str]:
    if count := sight.grown("failures"):
        yield f"{counted(count, 'unexpected error')} {_RECENTLY}; the log has the traceback"


# ---- deliveries ----


def _dropped(sight: Sight, _: float) -> Iterator[str]:
    for name, why in (
        ("dropped_presettled", "had no destination"),
        ("dropped_slow", "did not reach a slow receiver"),
        ("dropped_behind", "did not reach a receiver that was far behind"),
    ):
        if count := sight.grown(name):
            yield f"{counted(count, 'presettled delivery')} {why} {_RECENTLY}"


def _failing(sight: Sight, share: float) -> Iterator[str]:
    ended, fine = sight.grown(*_SETTLED), sight.grown("accepted")
    if ended - fine > share * ended:
        found = f"{ended - fine} of {counted(ended, 'delivery')}"
        yield f"{found} {_RECENTLY} {'was' if ended - fine == 1 else 'were'} not accepted"


def _malformed(sight: Sight, _: float) -> Iterator[str]:
    if count := sight.grown("decode_errors"):
        yield f"{counted(count, 'malformed message')} {'was' if count == 1 else 'were'} rejected {_RECENTLY}"


def _stuck(sight: Sight, _: float) -> Iterator[str]:
    if count := sum(state.page.counters["deliveries_stuck"] for state in sight.states):
        found = counted(count, "delivery is", "deliveries are")
        yield f"{found} not settled after 10 s; `routerd stat --links --stuck` shows who holds them"


def _slow(sight: Sight, seconds: float) -> Iterator[str]:
    ended, late = sight.grown(*_SETTLED, "presettled"), sight.grown("delayed_1s", "delayed_10s")
    if late > ended / 100:
        yield f"{late} of {counted(ended, 'delivery')} took more than {seconds:g} s {_RECENTLY}"


class _Growth(NamedTuple):
    """What happened to the copies for one of the busiest addresses lately; ``latency`` in seconds, of all together."""

    row: AddressRow
    seconds: float
    deliveries: int
    ended: int
    accepted: int
    latency: float


def _growth(sight: Sight) -> Iterator[_Growth]:
    before, last = sight.observer.span(RECENT_SECONDS)
    for address, new in last.addresses.items():
        if (old := before.addresses.get(address)) is None:
            continue
        now, then = new.outcomes, old.outcomes
        grown = [getattr(now, name) - getattr(then, name) for name in _SETTLED[:4]]
        latency = (now.latency - then.latency) * 1e-9
        yield _Growth(new, last.time - before.time, new.deliveries - old.deliveries, sum(grown), grown[0], latency)


def _failing_address(sight: Sight, share: float) -> Iterator[str]:
    for one in _growth(sight):
        failed = one.ended - one.accepted
        if one.ended > 0 and failed > share * one.ended:
            found = f"{one.row.address}: {failed} of {counted(one.ended, 'delivery')}"
            yield f"{found} {_RECENTLY} {'was' if failed == 1 else 'were'} not accepted by its receivers"


def _slow_address(sight: Sight, seconds: float) -> Iterator[str]:
    for one in _growth(sight):
        if one.ended > 0 and one.latency > seconds * one.ended:
            yield f"{one.row.address}: its receivers take {one.latency / one.ended:.1f} s for a delivery"


def _standing_address(sight: Sight, _: float) -> Iterator[str]:
    for one in _growth(sight):
        if one.row.dry and one.row.backlog and not one.deliveries and one.seconds >= STANDSTILL_SECONDS:
            senders = counted(one.row.dry, "sender has", "senders have")
            yield f"{one.row.address}: nothing moves; {senders} no credit, for its receivers settle nothing"


# ---- who is connected ----


def _failing_connections(sight: Sight, per_second: float) -> Iterator[str]:
    if (count := sight.grown("connections_failed")) > per_second * RECENT_SECONDS:
        ended = f"{counted(count, 'connection')} that came in ended by garbage, a protocol error or a timeout"
        yield f"{ended} {_RECENTLY}"


def _idle_listeners(sight: Sight, _: float) -> Iterator[str]:
    serving = {row.name for row in sight.board.listeners if row.workers} | set(sight.http)
    for name in dict.fromkeys(row.name for row in sight.board.listeners):
        if name not in serving:
            yield f"listener {name or '(unnamed)'}: nobody can connect by it; the log says why"
    for name, count in sight.http.items():
        if count is None:
            yield f"listener {name or '(unnamed)'}: nobody can connect by it with TLS; the log says why"


def _failing_connectors(sight: Sight, _: float) -> Iterator[str]:
    for row in sight.board.connectors:
        if not row.up:
            yield f"connector {row.name}: not connected{row.error and ': '}{row.error}"


def _unreachable_routers(sight: Sight, _: float) -> Iterator[str]:
    for row in sight.board.routers:
        if row.cost is None:
            yield f"router {row.router}: there is no path to it"


# ---- certificates and the flow log ----


def _expired(sight: Sight, _: float) -> Iterator[str]:
    if 0 < sight.of_supervisor("certificate_expiry") <= time.time():
        yield "a certificate has expired; the log names it"


def _expiring(sight: Sight, days: float) -> Iterator[str]:
    left = sight.of_supervisor("certificate_expiry") - time.time()
    if 0 < left < days * DAY_SECONDS:
        yield f"a certificate expires in {remaining(left)}; the log names it"


def _refused_certificates(sight: Sight, _: float) -> Iterator[str]:
    if sight.grown("certificates_failed"):
        yield f"changed certificates were not loaded {_RECENTLY}; the log says why, and the former ones stay in use"


def _losing_flow_log(sight: Sight, _: float) -> Iterator[str]:
    if count := sight.grown("flow_dropped", "flow_lost_no_space", "flow_lost_io"):
        yield f"the flow log lost {counted(count, 'record')} {_RECENTLY}; the log says what the recorder waits for"


WORRIES: Final = (
    Worry("RouterProcessDown", _down),
    Worry("RouterListenerDown", _idle_listeners),
    Worry("RouterReadPaused", _paused),
    Worry("RouterCertificateExpired", _expired),
    Worry("RouterNonsenseInSharedMemory", _nonsense),
    Worry("RouterProcessRestarts", _restarted, 2),
    Worry("RouterUnexpectedErrors", _unexpected),
    Worry("RouterArenaLow", _low_arena, 0.1),
    Worry("RouterRingFull", _full_ring, 0.8),
    Worry("RouterDescriptorsLow", _few_descriptors, 0.9),
    Worry("RouterReloadRefused", _refused_reload),
    Worry("RouterCertificateNotLoaded", _refused_certificates),
    Worry("RouterCertificateExpires", _expiring, 14),
    Worry("RouterConnectorDown", _failing_connectors),
    Worry("RouterUnreachableInNetwork", _unreachable_routers),
    Worry("RouterDeliveriesStuck", _stuck),
    Worry("RouterAddressStuck", _standing_address),
    Worry("RouterDropsDeliveries", _dropped),
    Worry("RouterDeliveriesFail", _failing, 0.05),
    Worry("RouterAddressFails", _failing_address, 0.05),
    Worry("RouterMalformedMessages", _malformed),
    Worry("RouterSlow", _slow, 1),
    Worry("RouterAddressSlow", _slow_address, 1),
    Worry("RouterConnectionsFail", _failing_connections, 1),
    Worry("RouterFlowLogLoses", _losing_flow_log),
)
