"""What a management agent changes, and tells of the router beyond its tables."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from bench import contract
from bench.contract import C_ATTACH, C_CLOSE, C_CONNECTION_OPENED, C_DENIED, C_DETACH
from core.management.request import Requester, request_of
from shm.contract.control import WorkerGone
from shm.contract.management import PREFIX
from shm.contract.payloads import Attach, Close, ConnectionOpened, Denied, Detach
from shm.memory.journal import NOTICE
from tests.support.beds.agent import Bed


def test_an_address_is_configured_and_forgotten(bed: Bed) -> None:
    """CREATE and DELETE, by name or by the identity it was given."""
    create = {"pattern": "news.*", "distribution": "closest", "priority": "7"}
    status, made = bed.crud("CREATE", create, type=PREFIX + "router.config.address", name="near")
    assert (status, made["name"], made["pattern"], made["priority"]) == (201, "near", "news.*", 7)
    assert [r["name"] for r in bed.query("router.config.address")] == ["wide", "near"]
    status, body = bed.crud("DELETE", type="router.config.address", identity=made["identity"])
    assert (status, body) == (204, {})
    assert [r["name"] for r in bed.query("router.config.address")] == ["wide"]


def test_a_connection_is_closed(bed: Bed) -> None:
    """UPDATE of adminStatus tells its worker to close it."""
    status, body = bed.crud("UPDATE", {"adminStatus": "deleted"}, type="connection", identity="4")
    assert (status, body["adminStatus"], body["operStatus"]) == (200, "deleted", "closing")
    assert bed.crud("READ", type="connection", identity="4")[0] == 404  # as good as gone
    (record,) = [r for r in bed.heard() if r["type"] == contract.W_CONTROL]
    assert record["state"] == C_CLOSE
    close = msgspec.msgpack.decode(bed.core_arena.read(record["block"]), type=Close)
    assert (close.connection, close.generation, close.error.condition) == (0, 1, "amqp:connection:forced")


def test_a_connection_of_a_dead_workers_successor_is_not_taken_for_a_closed_one(bed: Bed) -> None:
    """Its worker gives the same index and generation again, but the router no number."""
    bed.crud("UPDATE", {"adminStatus": "deleted"}, type="connection", identity="4")
    bed.core.worker_changed(WorkerGone(0, 1), 2)
    bed.core.connections.opened(0, ConnectionOpened(0, 1, "box", "10.0.0.1:99", number=5))
    assert bed.crud("READ", type="connection", identity="5")[0] == 200
    assert [row["identity"] for row in bed.query("connection")] == ["5"]


def test_a_link_is_detached(bed: Bed) -> None:
    """UPDATE of adminStatus tells its worker to detach it."""
    status, body = bed.crud("UPDATE", {"adminStatus": "disabled"}, type="router.link", identity="2")
    assert (status, body["adminStatus"], body["operStatus"]) == (200, "disabled", "down")
    (record,) = [r for r in bed.heard() if r["type"] == contract.W_CONTROL]
    detach = msgspec.msgpack.decode(bed.core_arena.read(record["block"]), type=Detach)
    assert record["state"] == C_DETACH
    assert (detach.link, detach.generation) == (1, 1)


def test_the_log_says_who_has_changed_what(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """Also without a refusal, which alone was told; who only reads leaves no line."""
    who = Requester(4, peer="10.0.0.1:9", user="al\nice")
    with caplog.at_level(NOTICE, "AGENT"):
        for operation, body in (("READ", {}), ("UPDATE", {"adminStatus": "disabled"})):
            request = request_of({"operation": operation, "type": "router.link", "identity": "2"}, body)
            answer = bed.agent.handle(msgspec.structs.replace(request, requester=who))
            assert answer.status == 200
    assert caplog.messages == [r"UPDATE of type 'router.link' identity '2' by 10.0.0.1:9 (user 'al\nice') done"]


@pytest.mark.parametrize("kind", ["connection", "router.link"])
@pytest.mark.parametrize(("number", "why"), [(9, "allowAdminStatusUpdate"), (None, "unsettled")])
def test_the_policy_may_forbid_it(bed: Bed, kind: str, number: int | None, why: str) -> None:
    """Who may not change adminStatus is told so, and nothing happens; other attributes are not concerned."""
    properties = {"operation": "UPDATE", "type": kind, "identity": "4" if kind == "connection" else "2"}
    for wanted in ("deleted", "disabled", "enabled"):
        request = request_of(properties, {"adminStatus": wanted})
        answer = bed.agent.handle(
            msgspec.structs.replace(request, requester=Requester(number, may_update_status=False))
        )
        if answer.status != 400:  # no status of that type
            assert (answer.status, answer.text.startswith("You are not allowed")) == (403, True)
            assert why in answer.text
    assert not bed.heard()


def test_what_a_worker_knows_of_receivers(bed: Bed) -> None:
    """What waits for them and their credit are asked of it, for those links and columns only."""
    names = ("undeliveredCount", "unsettledCount", "creditAvailable", "zeroCreditSeconds")
    bed.seen = {2: (3, 17, 0, 0)}
    assert bed.query("router.link", *names)[1] == dict(zip(names, (3, 0, 17, 0), strict=True))
    assert bed.asked == [[2]]
    bed.query("router.link", "name")
    assert bed.asked == [[2]]
    assert bed.crud("READ", type="router.link", identity="2")[1]["creditAvailable"] == 17
    bed.seen = {2: (0, 0, 1, 0)}
    assert bed.query("router.link", *names)[1]["zeroCreditSeconds"] > 10
    bed.seen = {1: (0, 0, 0, 1), 2: (0, 5, 0, 0)}
    assert [row["windowShut"] for row in bed.query("router.link", "windowShut")] == [True, False]
    assert bed.asked[-1] == [1, 2]


def test_stuck_and_blocked(bed: Bed) -> None:
    """A delivery that nobody settles for 10 s, and a sender without credit, are seen by the next look."""
    second = 1_000_000_000
    bed.say(C_ATTACH, Attach(2, 1, 0, "dry", False, "nobody.there"))
    block = bed.arena.write(b"x")
    assert block is not None
    deliver = contract.pack(
        type=contract.A_DELIVER, arena=0, block=block, link=0, link_gen=1, peer=1 | 1 << 32,
        flags=contract.F_COMPLETE, length=1, time=second,
    )  # fmt: skip
    assert bed.actions.push(deliver)
    bed.actions.publish()
    for now, stuck, blocked in ((second, 0, 0), (10 * second, 0, 0), (12 * second, 1, 1)):
        bed.core.step(now)
        assert bed.core.forwarder.look()
        rows = {r["linkName"]: r for r in bed.query("router.link", "linkName", "deliveriesStuck")}
        assert [rows[name]["deliveriesStuck"] for name in ("to", "from", "dry")] == [stuck, stuck, 0]
        (row,) = bed.query("router", "deliveriesStuck", "linksBlocked")
        assert row == {"deliveriesStuck": 2 * stuck, "linksBlocked": blocked}  # at both ends, as qdrouterd counts
        rows = {r["linkName"]: r for r in bed.query("router.link", "linkName", "identity", "waitsFor")}
        assert [rows[name]["waitsFor"] for name in ("to", "from", "dry")] == [
            rows["from"]["identity"] if stuck else None, None, None,
        ]  # fmt: skip


def test_what_the_policy_denied(bed: Bed) -> None:
    """By vhost, also what workers deny by themselves."""
    status, _ = bed.crud("CREATE", {"hostname": "v"}, type="vhost")
    assert status == 201
    for what in ("connection", "session", "session", "message"):
        bed.say(C_DENIED, Denied("v", what))
    bed.core.step(2)
    (row,) = bed.query("vhostStats")
    told = (row["connectionsDenied"], row["sessionDenied"], row["maxMessageSizeDenied"], row["perUserState"])
    assert told == (1, 2, 1, {})
    assert bed.query("policy", "connectionsProcessed", "connectionsCurrent") == [
        {"connectionsProcessed": 1, "connectionsCurrent": 1}
    ]


def test_how_a_connection_is_protected(bed: Bed) -> None:
    """As its worker told."""
    names = (
        "isAuthenticated", "user", "sasl", "isEncrypted", "ssl", "sslProto", "sslCipher", "sslSsf",
    )  # fmt: skip
    (plain,) = bed.query("connection", *names)
    assert list(plain.values()) == [False, None, None, False, False, None, None, 0]
    opened = ConnectionOpened(
        1, 1, "safe", "10.0.0.2:9", number=5, user="ann", sasl="EXTERNAL", authenticated=True,
        encrypted=True, tls_protocol="TLSv1.3", tls_cipher="TLS_AES_256_GCM_SHA384", tls_strength=256,
    )  # fmt: skip
    bed.say(C_CONNECTION_OPENED, opened)
    bed.core.step(2)
    row = bed.query("connection", *names)[1]
    assert list(row.values()) == [
        True, "ann", "EXTERNAL", True, True, "TLSv1.3", "TLS_AES_256_GCM_SHA384", 256,
    ]  # fmt: skip


def test_values_of_any_kind(bed: Bed) -> None:
    """What no attribute can be, and more than any configuration has, is refused."""
    deep: Any = "x"
    for _ in range(30):
        deep = [deep]
    for value in (UUID(int=1), b"bytes", deep, list(range(20_000)), {1: 2}, {"a": {2: 3}}):
        assert bed.crud("CREATE", {"hostname": "v", "groups": value}, type="vhost")[0] == 400
    many = {f"attribute{i}": i for i in range(9000)}
    status, _ = bed.crud("CREATE", many, type="vhost")
    assert status == 400
