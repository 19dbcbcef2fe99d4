"""What an operator should look into: each rule of docs/alerts.yml has its alarm on the page, with the same bound."""

import inspect
import re
import time
from pathlib import Path

import msgspec
import pytest

from bench import contract
from routerd.exporter.worries import UNKNOWN_TO_PAGE, WORRIES, Sight, Worry, alarms
from shm.statistics import board
from shm.statistics.board import AddressRow, Board, ConnectorRow, ListenerRow, Outcomes, RouterRow
from tests.unit.routerd.exporter.test_health import Bed, bed

__all__ = ["bed"]  # a fixture

TEXTS = {
    rule.partition("\n")[0]: rule
    for rule in (Path(__file__).parents[4] / "docs" / "alerts.yml").read_text().split("- alert: ")[1:]
}
RULES = {name: rule.split("expr:")[1].split("labels:")[0] for name, rule in TEXTS.items()}
BOUND = re.compile(r"[<>=]=?\s*([\d.]+)")
NO_BOUNDS = {"RouterReadPaused": "the number is 1 or 0: it says that a process reads nothing"}
ALARMS = [
    ("RouterReadPaused", "worker-0", {"paused": 1}, "worker-0: reads nothing until blocks are free; see arenaSize"),
    ("RouterReadPaused", "worker-0", {"pauses": 1}, "reading stopped 1 time because blocks ran low"),
    ("RouterArenaLow", "worker-1", {"small_free": 1}, "worker-1: its arena is 100% full; see arenaSize"),
    ("RouterRingFull", "core", {"overflow": 1}, "core: 1 record waits for a full ring"),
    ("RouterRingFull", "core", {"overflow": 3}, "core: 3 records wait for a full ring"),
    ("RouterDropsDeliveries", "core", {"dropped_presettled": 1}, "1 presettled delivery had no destination"),
    ("RouterDropsDeliveries", "core", {"dropped_slow": 2}, "2 presettled deliveries did not reach a slow receiver"),
    ("RouterDeliveriesFail", "core", {"accepted": 9, "released": 1}, "1 of 10 deliveries within the last minute was"),
    ("RouterMalformedMessages", "worker-0", {"decode_errors": 1}, "1 malformed message was rejected"),
    ("RouterDeliveriesStuck", "core", {"deliveries_stuck": 1}, "1 delivery is not settled after 10 s"),
    ("RouterDeliveriesStuck", "core", {"deliveries_stuck": 7}, "7 deliveries are not settled after 10 s"),
    ("RouterSlow", "core", {"accepted": 50, "delayed_1s": 2}, "2 of 50 deliveries took more than 1 s"),
    ("RouterConnectionsFail", "worker-1", {"connections_failed": 61}, "61 connections that came in ended by"),
    ("RouterNonsenseInSharedMemory", "worker-0", {"bad_records": 1}, "1 record in shared memory made no sense"),
    ("RouterUnexpectedErrors", "core", {"failures": 2}, "2 unexpected errors within the last minute"),
    ("RouterFlowLogLoses", "core", {"flow_dropped": 5}, "the flow log lost 5 records within the last minute"),
    ("RouterCertificateNotLoaded", "worker-0", {"certificates_failed": 1}, "changed certificates were not loaded"),
    ("RouterCertificateExpired", "supervisor", {"certificate_expiry": 600}, "a certificate has expired"),
    ("RouterReloadRefused", "supervisor", {"config_reads": 1}, "the last reload was refused"),
]
OUTCOMES = {"old": Outcomes(accepted=100), "failed": Outcomes(100, released=6), "late": Outcomes(102, latency=10**10)}
BOARDS = [
    (
        "RouterListenerDown",
        Board(listeners=[ListenerRow("amqps", [], 0), ListenerRow("amqp", [1], 2)]),
        "amqps: nobody",
    ),
    (
        "RouterConnectorDown",
        Board(connectors=[ConnectorRow("broker", False, 3, "refused")]),
        "broker: not connected: r",
    ),
    ("RouterUnreachableInNetwork", Board(routers=[RouterRow("C", "", None)]), "router C: there is no path to it"),
    ("RouterAddressFails", Board([AddressRow("q", "balanced", 9, 1, 1, OUTCOMES["failed"])]), "q: 6 of 6 deliveries"),
    (
        "RouterAddressSlow",
        Board([AddressRow("q", "balanced", 9, 1, 1, OUTCOMES["late"])]),
        "receivers take 5.0 s for a",
    ),
    (
        "RouterAddressStuck",
        Board([AddressRow("q", "balanced", 7, 1, 1, OUTCOMES["old"], 250, 0, 1)]),
        "q: nothing moves",
    ),
]


def show(bed: Bed, shown: Board) -> None:
    bed.segments.board().write(board.encode(shown))
    bed.tick()


def test_each_rule_has_its_worry() -> None:
    """The page and Prometheus know the same troubles; only a page that does not answer cannot say so."""
    assert {worry.rule for worry in WORRIES} == RULES.keys() - UNKNOWN_TO_PAGE
    assert RULES.keys() >= UNKNOWN_TO_PAGE


def test_each_worry_is_tried() -> None:
    """Those of processes that are gone or came back in test_health.py."""
    elsewhere = {"RouterProcessDown", "RouterProcessRestarts", "RouterDescriptorsLow", "RouterCertificateExpires"}
    assert {rule for rule, *_ in [*ALARMS, *BOARDS]} | elsewhere == {worry.rule for worry in WORRIES}


@pytest.mark.parametrize("worry", WORRIES, ids=lambda worry: worry.rule)
def test_a_rule_and_its_worry_have_one_bound(worry: Worry) -> None:
    """Whatever a rule compares with, except 0, the worry compares with, and the other way round."""
    compared = {found for found in BOUND.findall(re.sub(r"{[^}]*}", "", RULES[worry.rule])) if float(found)}
    if worry.rule in NO_BOUNDS:
        assert compared == {"1"}
        compared = set()
    assert compared == ({f"{worry.bound:g}"} if worry.bound else set())
    (_, bound) = inspect.signature(worry.alarms).parameters
    assert (bound == "_") == (not worry.bound), "what has a bound is to look at it"


@pytest.mark.parametrize(
    ("process", "numbers"),
    [
        ("worker-1", {"connections_failed": 60}),
        ("core", {"accepted": 95, "released": 5}),
        ("core", {"accepted": 100, "delayed_1s": 1}),
    ],
)
def test_what_a_rule_tolerates_is_no_alarm(bed: Bed, process: str, numbers: dict[str, int]) -> None:
    """What reaches a bound, and does not pass it."""
    bed.set(process, **numbers)
    bed.tick()
    assert bed.alarms == ""


def test_the_page_and_the_rule_name_one_command(bed: Bed) -> None:
    """Where both name one."""
    bed.set("core", deliveries_stuck=1)
    bed.tick()
    commands = re.findall("`routerd [^`]*`", bed.alarms)
    assert commands
    assert all(command in TEXTS["RouterDeliveriesStuck"] for command in commands)


def test_without_the_supervisor_there_are_alarms(bed: Bed) -> None:
    """Its numbers count as 0, and the others are told."""
    bed.set("core", deliveries_stuck=1)
    bed.tick()
    states = [state for state in bed.observer.states() if state.page.process != "supervisor"]
    (told,) = alarms(Sight(bed.observer, states, [], Board(), {}))
    assert told.startswith("1 delivery is not settled")


@pytest.mark.parametrize(("rule", "process", "numbers", "said"), ALARMS)
def test_what_an_operator_should_look_at_is_an_alarm(
    bed: Bed, rule: str, process: str, numbers: dict[str, int], said: str
) -> None:
    """Each with where, what, and for how long; it ends with its cause."""
    bed.tick(seconds=2)
    assert bed.alarms == ""
    bed.set(process, **numbers)
    bed.tick()
    assert said in bed.alarms


@pytest.mark.parametrize(("rule", "shown", "said"), BOARDS)
def test_what_the_core_shows_is_an_alarm(bed: Bed, rule: str, shown: Board, said: str) -> None:
    """Listeners, connectors, other routers, and the busiest addresses by what became of their copies lately."""
    before = AddressRow("q", "balanced", 7, 1, 1, OUTCOMES["old"])
    show(bed, Board([before]))
    bed.tick(seconds=61)
    assert bed.alarms == ""
    show(bed, shown)
    assert said in bed.alarms
    assert len(bed.alarms.splitlines()) == 1
    if shown.addresses:  # what has not changed for a minute is no news
        row = msgspec.structs.replace(shown.addresses[0], dry=0)
        show(bed, Board([row]))
        bed.tick(seconds=61)
        assert bed.alarms == ""


def test_an_http_listener_whose_tls_cannot_be_used_is_an_alarm(bed: Bed) -> None:
    """The exporter alone serves it, so the core shows nothing of it."""
    told = alarms(Sight(bed.observer, bed.observer.states(), [], Board(), {"http": 3, "https": None}))
    assert told == ["listener https: nobody can connect by it with TLS; the log says why"]


@pytest.mark.parametrize(("days", "said"), [(13.5, "a certificate expires in 13.5 days"), (15, "")])
def test_a_certificate_that_soon_expires_is_an_alarm(bed: Bed, days: float, said: str) -> None:
    """Two weeks before, as the rule has it."""
    bed.set("supervisor", certificate_expiry=int(time.time() + days * 86400))
    bed.tick()
    assert bed.alarms.startswith(said)
    assert bool(bed.alarms) == bool(said)


def test_descriptors_that_run_low_are_an_alarm(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine of ten are open."""
    monkeypatch.setattr("routerd.exporter.observer._descriptors", lambda _: (95, 100))
    assert "core: 95% of its file descriptors are open; see LimitNOFILE" in bed.alarms


def test_a_full_ring_is_an_alarm(bed: Bed) -> None:
    """The process that reads it does not keep up."""
    producer = contract.Producer(bed.segments.rings, contract.work_ring_offset(1))
    for _ in range(contract.RING_CAPACITY - 1):
        producer.push(contract.pack(type=1))
    producer.publish()
    del producer
    assert bed.alarms == "worker-1: a ring is 100% full"
